"""Models that the settings name: their names, and errors of unusable ones."""

import json
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from mlxctl.formats.adapters import create_adapter
from mlxctl.inference.models.configured_models import ConfiguredModels, ModelReader
from mlxctl.inference.models.served_model import ServedModel
from mlxctl.ir import GenerationRequest, KVFormat, TextGenerationTask, text_message
from mlxctl.ir.conversation_size import ConversationSize
from mlxctl.ir.errors import (
    BrokenModel,
    ContextTooLong,
    ModelNotFoundOnDisk,
    PracticalContextExceeded,
    SettingsError,
)
from mlxctl.library import Library, demo, read_model
from mlxctl.library.capability_lookup import CapabilityLookup
from mlxctl.library.fingerprint import fingerprint
from mlxctl.probe.limit_checks import check_context
from mlxctl.state.settings import EngineSettings, LibrarySettings, ModelSettings, PoolSettings, Settings
from mlxctl.state.stores import CapabilityStore
from tests import tiny_models
from tests.permissions import restricted_directory
from tests.state.stores.probe_records import record
from tests.tiny_models.mtp_heads import separate_head, with_mtp_head


@pytest.fixture
def models_dir(tmp_path: Path) -> Path:
    """Two good models, and one whose config.json is invalid."""
    directory = tmp_path / "shelf"
    for name in ("qwen3", "llama3"):
        shutil.copytree(tiny_models.model(name), directory / name)
    shutil.copytree(tiny_models.model("qwen3"), directory / "broken")
    (directory / "broken" / "config.json").write_text("{")
    return directory


@pytest.fixture
def knowledge(tmp_path: Path) -> CapabilityLookup:
    return CapabilityLookup(CapabilityStore(tmp_path / "capabilities.sqlite"), tmp_path / "capabilities.toml")


def configure(
    knowledge: CapabilityLookup,
    *,
    aliases: dict[str, str] | None = None,
    model: Path | None = None,
    **pool: object,
) -> ConfiguredModels:
    settings = Settings(
        model=ModelSettings(path=model, trust_remote_code=True),
        library=LibrarySettings(hub_cache=Path("/nowhere"), aliases=aliases or {}),
        pool=PoolSettings(**pool),  # type: ignore[arg-type]
    )
    directories = LibrarySettings(
        models_dirs=settings.pool.dirs, hub_cache=Path("/nowhere"), aliases=aliases or {}
    )
    return ModelReader(settings, Library(directories), knowledge).configured_models()


def configure_draft(knowledge: CapabilityLookup, speculation: str, **model: Path | None) -> ConfiguredModels:
    settings = Settings(
        model=ModelSettings(**model),
        engine=EngineSettings(speculation=speculation),  # type: ignore[arg-type]
        library=LibrarySettings(hub_cache=Path("/nowhere")),
    )
    library = Library(LibrarySettings(hub_cache=Path("/nowhere")))
    return ModelReader(settings, library, knowledge).configured_models()


def names(models: list[ServedModel]) -> list[str]:
    return [model.name for model in models]


def test_demo_model_is_the_default(knowledge: CapabilityLookup) -> None:
    assert [(model.name, model.is_demo) for model in configure(knowledge).listed] == [(demo.MODEL_NAME, True)]


@pytest.mark.parametrize("name", [None, "demo", "mlxctl-demo"])
def test_demo_model_is_the_same_by_every_name(knowledge: CapabilityLookup, name: str | None) -> None:
    model = configure(knowledge, model=name and Path(name)).listed[0]
    assert (model.name, model.is_demo) == (demo.MODEL_NAME, True)


def test_listed_models_keep_their_order(models_dir: Path, knowledge: CapabilityLookup) -> None:
    made = configure(
        knowledge, model=models_dir / "llama3", models=(models_dir / "qwen3",), dirs=(models_dir,)
    )
    assert (names(made.listed), names(made.others)) == (["llama3", "qwen3"], [])
    only_directory = configure(knowledge, dirs=(models_dir,))
    assert (names(only_directory.listed), names(only_directory.others)) == ([], ["llama3", "qwen3"])


def test_only_listed_models_may_run_remote_code(models_dir: Path, knowledge: CapabilityLookup) -> None:
    made = configure(knowledge, model=models_dir / "llama3", dirs=(models_dir,))
    assert {model.name: model.trust_remote_code for model in (*made.listed, *made.others)} == {
        "llama3": True,
        "qwen3": False,
    }


def test_broken_model_is_unusable_with_a_reason_without_path(
    models_dir: Path, knowledge: CapabilityLookup
) -> None:
    for made in (
        configure(knowledge, model=models_dir / "broken", models=(models_dir / "qwen3",)),
        configure(knowledge, model=models_dir / "qwen3", dirs=(models_dir,)),
    ):
        assert names(made.listed) == ["qwen3"]
        assert [model.name for model in made.unusable] == ["broken"]
        assert str(models_dir) not in made.unusable[0].reason


@pytest.mark.parametrize(("first", "second"), [("gone", "qwen3"), ("qwen3", "gone")])
def test_missing_listed_model_is_an_error(
    models_dir: Path, knowledge: CapabilityLookup, first: str, second: str
) -> None:
    with pytest.raises(ModelNotFoundOnDisk, match=str(models_dir / "gone")):
        configure(knowledge, model=models_dir / first, models=(models_dir / second,), dirs=(models_dir,))


def test_error_explains_every_unusable_model(models_dir: Path, knowledge: CapabilityLookup) -> None:
    with pytest.raises(BrokenModel, match=r"^(?!no model)"):
        configure(knowledge, model=models_dir / "broken")
    for name in ("qwen3", "llama3"):
        (models_dir / name / "tokenizer.json").unlink()
    with pytest.raises(BrokenModel, match=r"no model can be served: .*broken.*; .*llama3"):
        configure(knowledge, dirs=(models_dir,))


def test_alias_that_is_a_pattern_serves_its_model_under_its_own_name(
    models_dir: Path, knowledge: CapabilityLookup
) -> None:
    aliases = {"fast": str(models_dir / "qwen3"), "claude-*-haiku*": "fast", "claude-*": "lost"}
    made = configure(knowledge, model=models_dir / "llama3", aliases=aliases)
    assert made.names == ["llama3", "fast"]
    assert {glob: model.name for glob, model in made.patterns.items()} == {"claude-*-haiku*": "qwen3"}
    alone = configure(knowledge, model=models_dir / "llama3", aliases={"claude-*": str(models_dir / "qwen3")})
    assert alone.names == ["llama3", "qwen3"]


def test_dangling_alias_is_unusable(models_dir: Path, knowledge: CapabilityLookup) -> None:
    aliases = {"fast": str(models_dir / "qwen3"), "lost": "no-such-model"}
    made = configure(knowledge, model=models_dir / "llama3", aliases=aliases)
    assert (names(made.listed), names(made.others)) == (["llama3"], ["fast"])
    assert "no-such-model" in made.unusable[0].reason


def test_ambiguous_settings_are_rejected(
    models_dir: Path, tmp_path: Path, knowledge: CapabilityLookup
) -> None:
    shutil.copytree(tiny_models.model("lfm2"), tmp_path / "other" / "qwen3")
    with pytest.raises(SettingsError, match="two models are called 'qwen3'"):
        configure(knowledge, model=models_dir / "qwen3", models=(tmp_path / "other" / "qwen3",))
    with pytest.raises(SettingsError, match="no model 'llama' to pin; there are: qwen3"):
        configure(knowledge, model=models_dir / "qwen3", pins=("llama",))
    with pytest.raises(SettingsError, match="no directory of models"):
        configure(knowledge, dirs=(tmp_path / "nowhere",))


def test_model_and_directory_of_models_are_told_apart(models_dir: Path, knowledge: CapabilityLookup) -> None:
    model = models_dir / "qwen3"
    with pytest.raises(SettingsError, match=rf"is a model, .*: mlxctl serve {model}$"):
        configure(knowledge, dirs=(model,))
    with pytest.raises(BrokenModel, match=rf"directory of models: mlxctl serve --models-dir {models_dir}$"):
        configure(knowledge, model=models_dir)


def test_unreadable_directory_of_models_is_named(knowledge: CapabilityLookup) -> None:
    with restricted_directory() as directory:
        directory.chmod(0)
        with pytest.raises(SettingsError, match="cannot be read: permission denied"):
            configure(knowledge, dirs=(directory,))


def test_draft_model_of_the_same_vocabulary_is_loaded_with_it(
    models_dir: Path, knowledge: CapabilityLookup
) -> None:
    shutil.copytree(models_dir / "qwen3", models_dir / "small")
    found = configure_draft(knowledge, "auto", path=models_dir / "qwen3", draft=models_dir / "small")
    spec = found.listed[0].spec
    assert isinstance(spec.task, TextGenerationTask)
    assert spec.task.options.draft is not None
    assert spec.task.options.draft.path.name == "small"
    assert spec.weights_bytes == found.listed[0].facts.weights_bytes + spec.task.options.draft.weights_bytes


@pytest.mark.parametrize(
    ("speculation", "draft", "error"),
    [
        ("auto", "other", r"cannot draft for 'qwen3': token .* has the id 5 in the draft model"),
        ("draft", None, "there is no draft model: set --draft"),
        ("off", "llama3", "--draft is set but speculation is 'off'"),
        ("draft", "nowhere", "the draft model cannot be used"),
    ],
)
def test_unusable_draft_model_is_a_settings_error(
    models_dir: Path, knowledge: CapabilityLookup, speculation: str, draft: str | None, error: str
) -> None:
    other = models_dir / "other"
    shutil.copytree(models_dir / "qwen3", other)
    tokenizer = json.loads((other / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    token = next(token for token, token_id in vocabulary.items() if token_id == 5)
    vocabulary["never seen"] = vocabulary.pop(token)
    (other / "tokenizer.json").write_text(json.dumps(tokenizer))
    chosen = None if draft is None else models_dir / draft
    with pytest.raises(SettingsError, match=error):
        configure_draft(knowledge, speculation, path=models_dir / "qwen3", draft=chosen)


def test_mtp_head_is_loaded_where_the_weights_have_one(tmp_path: Path, knowledge: CapabilityLookup) -> None:
    base = tiny_models.model("qwen3_5_seer")
    with_head = with_mtp_head(base, tmp_path / "with_head")
    for speculation, expected in (("mtp", True), ("auto", True), ("lookup", False)):
        spec = configure_draft(knowledge, speculation, path=with_head).listed[0].spec
        assert isinstance(spec.task, TextGenerationTask)
        assert spec.task.options.mtp_head is expected
    with pytest.raises(SettingsError, match=r"'qwen3_5_seer.*no MTP head .* or --speculation lookup"):
        configure_draft(knowledge, "mtp", path=base)


def test_mtp_head_of_another_directory_is_a_draft(tmp_path: Path, knowledge: CapabilityLookup) -> None:
    base = tiny_models.model("qwen3_5_seer")
    head = separate_head(with_mtp_head(base, tmp_path / "with_head"), tmp_path / "head")
    for speculation in ("mtp", "auto"):
        model = configure_draft(knowledge, speculation, path=base, draft=head).listed[0]
        spec = model.spec
        assert isinstance(spec.task, TextGenerationTask)
        draft = spec.task.options.draft
        assert draft is not None
        assert (draft.path, draft.is_mtp_head, spec.task.options.mtp_head) == (head, True, False)
        assert spec.weights_bytes == model.facts.weights_bytes + draft.weights_bytes
    with pytest.raises(SettingsError, match="'head' is an MTP head: set --speculation mtp"):
        configure_draft(knowledge, "draft", path=base, draft=head)
    with pytest.raises(SettingsError, match=r"cannot draft for 'qwen3.*model_type 'qwen3' are not supported"):
        configure_draft(knowledge, "mtp", path=tiny_models.model("qwen3"), draft=head)
    with pytest.raises(SettingsError, match="speculation is 'mtp': set --speculation auto"):
        configure_draft(knowledge, "mtp", path=base, draft=tiny_models.model("qwen3"))


def test_formats_by_layer_need_a_file_with_quantized_layers(
    models_dir: Path, knowledge: CapabilityLookup, caplog: pytest.LogCaptureFixture
) -> None:
    (models_dir / "llama3" / "kv_config.json").write_text('[{"layer_idx": 1, "bits": 8}]')
    by_layer = dict.fromkeys(("llama3", "qwen3"), "config")
    made = configure(
        knowledge, model=models_dir / "llama3", models=(models_dir / "qwen3",), kv_bits_by_name=by_layer
    )
    formats = [model.options.kv_format for model in made.listed]
    assert formats == [((1, KVFormat(bits=8, group_size=64)),), None]
    assert "model 'qwen3' has no kv_config.json with quantized layers" in caplog.text
    with pytest.raises(
        SettingsError, match=r"'qwen3' has no kv_config\.json .* set --kv-bits to full, 8 or 4"
    ):
        configure(knowledge, model=models_dir / "qwen3", kv_bits_by_name={"qwen3": "config"})


def test_kv_bits_are_set_by_own_name_only(models_dir: Path, knowledge: CapabilityLookup) -> None:
    made = configure(
        knowledge, model=models_dir / "llama3", models=(models_dir / "qwen3",), kv_bits_by_name={"qwen3": "4"}
    )
    assert [model.options.kv_format for model in made.listed] == [None, KVFormat(bits=4, group_size=64)]
    with pytest.raises(SettingsError, match=r"no model 'llama' for pool\.kv_bits_by_name; there are: qwen3"):
        configure(knowledge, model=models_dir / "qwen3", kv_bits_by_name={"llama": "8"})
    with pytest.raises(SettingsError, match="'fast' is another name of 'qwen3'"):
        configure(
            knowledge,
            model=models_dir / "qwen3",
            aliases={"fast": str(models_dir / "qwen3")},
            kv_bits_by_name={"fast": "8"},
        )


def test_library_model_is_read_by_name_never_by_path(models_dir: Path, knowledge: CapabilityLookup) -> None:
    library = Library(LibrarySettings(models_dirs=(models_dir,), hub_cache=Path("/nowhere")))
    reader = ModelReader(Settings(), library, knowledge)
    assert reader.library_model("qwen3").name == "qwen3"
    for path in (str(models_dir / "qwen3"), "../shelf/qwen3", "./qwen3"):
        with pytest.raises(ModelNotFoundOnDisk):
            reader.library_model(path)


@pytest.mark.parametrize(
    "table", ["qwen3", "org/qwen3", "served", "fast", "chained", "{path}", "{link}", "{path}/"]
)
def test_override_applies_under_every_name(
    models_dir: Path, tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    (models_dir / "org").mkdir()
    path = (models_dir / "qwen3").rename(models_dir / "org" / "qwen3")
    (tmp_path / "link").symlink_to(path)
    aliases = {"fast": str(path), "chained": "fast"}

    made = configure_with_overrides(
        tmp_path,
        f'["{table.format(path=path, link=tmp_path / "link")}"]\nthinking = "no"\n',
        path,
        models_dir,
        aliases,
    )

    assert made.listed[0].name == "served"
    assert made.listed[0].verdicts["thinking"] == "no"
    assert "capabilities.toml" not in caplog.text


@pytest.mark.parametrize(("max_tokens", "limit"), [(100, 100), (10_000_000, None)])
def test_max_tokens_override_only_shortens_the_context(
    models_dir: Path, tmp_path: Path, max_tokens: int, limit: int | None
) -> None:
    path = models_dir / "qwen3"
    made = configure_with_overrides(tmp_path, f"[qwen3]\nmax_tokens = {max_tokens}\n", path, models_dir, {})

    assert made.listed[0].context_length == (
        limit or read_model(path, trust_remote_code=False).context_length
    )


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("qwenn3", "; did you mean 'qwen3'?"),
        ("/nowhere/qwen3", ""),
        ("org/lama3", "; did you mean 'llama3'?"),
    ],
)
def test_override_without_model_logs_a_warning(
    models_dir: Path, tmp_path: Path, table: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    configure_with_overrides(
        tmp_path, f'["{table}"]\nthinking = "no"\n', models_dir / "qwen3", models_dir, {}
    )

    assert f"no model is called {table!r}, so this table has no effect{hint}" in caplog.text


def test_override_of_unserved_model_logs_no_warning(
    models_dir: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    configure_with_overrides(tmp_path, '[llama3]\nthinking = "no"\n', models_dir / "qwen3", models_dir, {})

    assert "no effect" not in caplog.text


def configure_with_overrides(
    state_dir: Path, overrides: str, model: Path, models_dir: Path, aliases: dict[str, str]
) -> ConfiguredModels:
    """Configure one model, named `served`, with capability overrides."""
    (state_dir / "capabilities.toml").write_text(overrides)
    known = CapabilityLookup(
        CapabilityStore(state_dir / "capabilities.sqlite"), state_dir / "capabilities.toml"
    )
    library = LibrarySettings(models_dirs=(models_dir,), hub_cache=Path("/nowhere"), aliases=aliases)
    settings = Settings(model=ModelSettings(path=model, name="served"), library=library)
    return ModelReader(settings, Library(library), known).configured_models()


def configure_probed(
    tmp_path: Path, *, memory_limit_bytes: int | None, overrides: str = "", **model: Any
) -> ServedModel:
    """Return a probed model of 1 MB, 1,000 bytes a token."""
    path = tiny_models.model("qwen3")
    finding = check_context(
        context_length=read_model(path).context_length,
        conversation=ConversationSize(bytes_per_token=900, work_bytes_per_token=100, fixed_bytes=5000),
        weights_bytes=995_000,
        memory_limit_bytes=1_356_000,
    )
    (tmp_path / "capabilities.toml").write_text(overrides)
    store = CapabilityStore(tmp_path / "capabilities.sqlite")
    store.save(record(finding, fingerprint=fingerprint(path)))
    settings = Settings(
        model=ModelSettings(path=path, name="m", **model),
        engine=EngineSettings(memory_limit_bytes=memory_limit_bytes),
    )
    library = Library(LibrarySettings(hub_cache=Path("/nowhere")))
    knowledge = CapabilityLookup(store, tmp_path / "capabilities.toml")
    try:
        return ModelReader(settings, library, knowledge).configured_models().listed[0]
    finally:
        knowledge.close()


@pytest.mark.parametrize(
    ("memory_limit_bytes", "overrides", "kv_bits", "expected"),
    [
        (1_356_000, "", "full", 100),
        (1_316_000, "", "full", 60),
        (1_356_000, "[m]\nmax_tokens = 150\n", "full", 150),
        (2**40, "", "full", None),
        (None, "", "full", None),
        (1_356_000, "", "8", None),
        (1_256_000, "", "full", None),
    ],
)
def test_practical_context_is_that_of_this_servers_memory(
    tmp_path: Path, memory_limit_bytes: int | None, overrides: str, kv_bits: str, expected: int | None
) -> None:
    model = configure_probed(
        tmp_path, memory_limit_bytes=memory_limit_bytes, overrides=overrides, kv_bits=kv_bits
    )
    own = read_model(model.facts.path).context_length
    assert model.context_length == (own if expected is None else expected)
    assert (model.facts.context_limit is None) is (expected is None)


def test_prompt_beyond_the_practical_context_names_figure_source_and_override(tmp_path: Path) -> None:
    model = configure_probed(tmp_path, memory_limit_bytes=1_356_000)
    adapter = create_adapter(model.facts, name=model.name)
    request = GenerationRequest(model=model.name, messages=(text_message("user", "Hello " * 500),))
    expected = (
        r"> 100 maximum; this is the practical context: mlxctl probe .* max_tokens .* capabilities\.toml"
    )
    with pytest.raises(PracticalContextExceeded, match=expected):
        adapter.prepare_input(request)
    with pytest.raises(ContextTooLong, match=r"> 50 maximum$") as own_limit:
        adapter.prepare_input(replace(request, max_context_tokens=50))
    assert type(own_limit.value) is ContextTooLong


def test_prompt_beyond_an_override_names_it(tmp_path: Path) -> None:
    model = configure_probed(tmp_path, memory_limit_bytes=None, overrides="[m]\nmax_tokens = 100\n")
    request = GenerationRequest(model=model.name, messages=(text_message("user", "Hello " * 500),))
    with pytest.raises(ContextTooLong, match=r"> 100 maximum; this is max_tokens .* capabilities\.toml"):
        create_adapter(model.facts, name=model.name).prepare_input(request)
