"""Which models a server offers, from its settings: under which names, and what is said of those that cannot
be used.
"""

import shutil
from pathlib import Path

import pytest

from mlxctl import demo
from mlxctl.bootstrap.configured_models import ConfiguredModels, make_offer, read_library_model
from mlxctl.errors import BrokenModel, ModelNotFoundOnDisk, SettingsError
from mlxctl.inference import ModelToServe
from mlxctl.ir import KVFormat
from mlxctl.models import Library
from mlxctl.models.knowledge import Knowledge
from mlxctl.settings import LibrarySettings, ModelSettings, PoolSettings, Settings
from mlxctl.stores import CapabilityStore
from tests import tiny_models


@pytest.fixture
def shelf(tmp_path: Path) -> Path:
    """Two good models, and one whose configuration is no JSON."""
    directory = tmp_path / "shelf"
    for name in ("qwen3", "llama3"):
        shutil.copytree(tiny_models.model(name), directory / name)
    shutil.copytree(tiny_models.model("qwen3"), directory / "broken")
    (directory / "broken" / "config.json").write_text("{")
    return directory


@pytest.fixture
def knowledge(tmp_path: Path) -> Knowledge:
    return Knowledge(CapabilityStore(tmp_path / "capabilities.sqlite"), tmp_path / "capabilities.toml")


def offer(
    knowledge: Knowledge, *, aliases: dict[str, str] | None = None, model: Path | None = None, **pool: object
) -> ConfiguredModels:
    settings = Settings(
        model=ModelSettings(path=model, trust_remote_code=True),
        library=LibrarySettings(hub_cache=Path("/nowhere"), aliases=aliases or {}),
        pool=PoolSettings(**pool),  # type: ignore[arg-type]
    )
    places = LibrarySettings(
        models_dirs=settings.pool.dirs, hub_cache=Path("/nowhere"), aliases=aliases or {}
    )
    return make_offer(settings, Library(places), knowledge)


def names(models: list[ModelToServe]) -> list[str]:
    return [model.name for model in models]


def test_without_any_model_the_demo_is_offered(knowledge: Knowledge) -> None:
    assert [(model.name, model.is_demo) for model in offer(knowledge).named] == [(demo.MODEL_NAME, True)]


def test_listed_models_come_in_their_order_and_those_of_directories_beside_them(
    shelf: Path, knowledge: Knowledge
) -> None:
    made = offer(knowledge, model=shelf / "llama3", models=(shelf / "qwen3",), dirs=(shelf,))
    assert (names(made.named), names(made.others)) == (["llama3", "qwen3"], [])
    only_directory = offer(knowledge, dirs=(shelf,))
    assert (names(only_directory.named), names(only_directory.others)) == ([], ["llama3", "qwen3"])


def test_only_what_a_person_listed_may_bring_code(shelf: Path, knowledge: Knowledge) -> None:
    made = offer(knowledge, model=shelf / "llama3", dirs=(shelf,))
    assert {model.name: model.trust_remote_code for model in (*made.named, *made.others)} == {
        "llama3": True,
        "qwen3": False,
    }


def test_a_broken_model_is_offered_as_unusable_with_a_reason_that_names_no_path(
    shelf: Path, knowledge: Knowledge
) -> None:
    for made in (
        offer(knowledge, model=shelf / "broken", models=(shelf / "qwen3",)),
        offer(knowledge, model=shelf / "qwen3", dirs=(shelf,)),
    ):
        assert names(made.named) == ["qwen3"]
        assert [model.name for model in made.unusable] == ["broken"]
        assert str(shelf) not in made.unusable[0].reason


@pytest.mark.parametrize(("first", "second"), [("gone", "qwen3"), ("qwen3", "gone")])
def test_a_named_model_that_is_not_there_is_an_error_beside_a_good_one(
    shelf: Path, knowledge: Knowledge, first: str, second: str
) -> None:
    with pytest.raises(ModelNotFoundOnDisk, match=str(shelf / "gone")):
        offer(knowledge, model=shelf / first, models=(shelf / second,), dirs=(shelf,))


def test_when_none_can_be_used_the_error_says_why_of_each(shelf: Path, knowledge: Knowledge) -> None:
    with pytest.raises(BrokenModel, match=r"^(?!no model)"):
        offer(knowledge, model=shelf / "broken")
    for name in ("qwen3", "llama3"):
        (shelf / name / "tokenizer.json").unlink()
    with pytest.raises(BrokenModel, match=r"no model can be served: .*broken.*; .*llama3"):
        offer(knowledge, dirs=(shelf,))


def test_an_alias_is_a_name_for_requests_and_one_that_leads_nowhere_is_unusable(
    shelf: Path, knowledge: Knowledge
) -> None:
    aliases = {"fast": str(shelf / "qwen3"), "lost": "no-such-model"}
    made = offer(knowledge, model=shelf / "llama3", aliases=aliases)
    assert (names(made.named), names(made.others)) == (["llama3"], ["fast"])
    assert "no-such-model" in made.unusable[0].reason


def test_what_cannot_be_meant_is_refused(shelf: Path, tmp_path: Path, knowledge: Knowledge) -> None:
    shutil.copytree(tiny_models.model("lfm2"), tmp_path / "other" / "qwen3")
    with pytest.raises(SettingsError, match="two models are called 'qwen3'"):
        offer(knowledge, model=shelf / "qwen3", models=(tmp_path / "other" / "qwen3",))
    with pytest.raises(SettingsError, match="no model 'llama' to pin; there are: qwen3"):
        offer(knowledge, model=shelf / "qwen3", pins=("llama",))
    with pytest.raises(SettingsError, match="no directory of models"):
        offer(knowledge, dirs=(tmp_path / "nowhere",))


def test_bits_of_keys_and_values_are_given_by_a_models_own_name(shelf: Path, knowledge: Knowledge) -> None:
    made = offer(knowledge, model=shelf / "llama3", models=(shelf / "qwen3",), kv_bits_by_name={"qwen3": "4"})
    assert [model.kv_format for model in made.named] == [None, KVFormat(bits=4, group_size=64)]
    with pytest.raises(SettingsError, match=r"no model 'llama' for pool\.kv_bits_by_name; there are: qwen3"):
        offer(knowledge, model=shelf / "qwen3", kv_bits_by_name={"llama": "8"})
    with pytest.raises(SettingsError, match="'fast' is another name of 'qwen3'"):
        offer(
            knowledge,
            model=shelf / "qwen3",
            aliases={"fast": str(shelf / "qwen3")},
            kv_bits_by_name={"fast": "8"},
        )


def test_a_request_reads_the_library_by_name_and_never_by_path(shelf: Path, knowledge: Knowledge) -> None:
    library = Library(LibrarySettings(models_dirs=(shelf,), hub_cache=Path("/nowhere")))
    assert (
        read_library_model("qwen3", settings=Settings(), library=library, knowledge=knowledge).name == "qwen3"
    )
    for path in (str(shelf / "qwen3"), "../shelf/qwen3", "./qwen3"):
        with pytest.raises(ModelNotFoundOnDisk):
            read_library_model(path, settings=Settings(), library=library, knowledge=knowledge)


@pytest.mark.parametrize(
    "table", ["qwen3", "org/qwen3", "served", "fast", "chained", "{path}", "{link}", "{path}/"]
)
def test_overrides_count_under_every_name_of_a_model(
    shelf: Path, tmp_path: Path, table: str, caplog: pytest.LogCaptureFixture
) -> None:
    (shelf / "org").mkdir()
    path = (shelf / "qwen3").rename(shelf / "org" / "qwen3")
    (tmp_path / "link").symlink_to(path)
    aliases = {"fast": str(path), "chained": "fast"}

    made = offered_with(
        tmp_path,
        f'["{table.format(path=path, link=tmp_path / "link")}"]\nthinking = "no"\n',
        path,
        shelf,
        aliases,
    )

    assert made.named[0].name == "served"
    assert made.named[0].verdicts["thinking"] == "no"
    assert "capabilities.toml" not in caplog.text


@pytest.mark.parametrize(
    ("table", "hint"),
    [
        ("qwenn3", "; did you mean 'qwen3'?"),
        ("/nowhere/qwen3", ""),
        ("org/lama3", "; did you mean 'llama3'?"),
    ],
)
def test_overrides_of_no_model_are_warned_of(
    shelf: Path, tmp_path: Path, table: str, hint: str, caplog: pytest.LogCaptureFixture
) -> None:
    offered_with(tmp_path, f'["{table}"]\nthinking = "no"\n', shelf / "qwen3", shelf, {})

    assert f"no model is called {table!r}, so this table has no effect{hint}" in caplog.text


def test_overrides_of_a_model_that_is_not_served_now_are_not_warned_of(
    shelf: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    offered_with(tmp_path, '[llama3]\nthinking = "no"\n', shelf / "qwen3", shelf, {})

    assert "no effect" not in caplog.text


def offered_with(
    place: Path, overrides: str, model: Path, shelf: Path, aliases: dict[str, str]
) -> ConfiguredModels:
    """What is offered of one model, served as `served`, where somebody wrote overrides."""
    (place / "capabilities.toml").write_text(overrides)
    known = Knowledge(CapabilityStore(place / "capabilities.sqlite"), place / "capabilities.toml")
    library = LibrarySettings(models_dirs=(shelf,), hub_cache=Path("/nowhere"), aliases=aliases)
    return make_offer(
        Settings(model=ModelSettings(path=model, name="served"), library=library), Library(library), known
    )
