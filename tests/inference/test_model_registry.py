"""Resolution of names in requests to models."""

import asyncio

import pytest

from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.served_model import ServedModel, UnusableModel
from mlxctl.ir import Purpose
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import (
    AmbiguousModelName,
    BrokenModel,
    ModelNotFoundOnDisk,
    ModelUnavailable,
    UnknownModel,
)
from mlxctl.library import read_model
from tests import tiny_models


def model(name: str, family: str = "qwen3") -> ServedModel:
    return ServedModel(name=name, facts=read_model(tiny_models.model(family)))


def answering(
    registry: ModelRegistry,
    name: str,
    allowed: AllowedModels = EVERY_MODEL,
    purpose: Purpose | None = "text",
) -> str:
    """Return the own name of the model that answers to `name`."""
    found = asyncio.run(registry.look_up(name, allowed)) or registry.stand_in(name, allowed, purpose)
    return registry.resolve(found or name, allowed).name


def test_directory_is_one_model_under_all_its_names() -> None:
    registry = ModelRegistry([model("first")], [model("second"), model("other", "llama3")])
    assert answering(registry, "second") == "first"
    assert [own.name for own in registry.models] == ["first", "other"]
    assert [(name, own.name) for name, own in registry.entries(EVERY_MODEL)] == [
        ("first", "first"),
        ("second", "first"),
        ("other", "other"),
    ]


def test_unknown_name_raises_error_that_lists_the_models() -> None:
    with pytest.raises(UnknownModel, match="'missing' is not served here; available: first"):
        answering(ModelRegistry([model("first")]), "missing")


def test_unusable_model_is_rejected_with_its_reason() -> None:
    registry = ModelRegistry(
        [model("first")], unusable=[UnusableModel(name="broken", reason="has no config.json")]
    )
    with pytest.raises(ModelUnavailable, match=r"'broken' is not available: has no config\.json"):
        answering(registry, "broken")


def test_library_model_is_found_once_and_stays_registered() -> None:
    looked_up: list[str] = []

    def find(name: str) -> ServedModel:
        looked_up.append(name)
        if name == "gone":
            raise ModelNotFoundOnDisk(name, "not there")
        if name == "bad":
            raise BrokenModel("/models/bad", "model '/models/bad' has no weights")
        return model(name, "llama3")

    registry = ModelRegistry([model("first")], find=find)
    assert [answering(registry, "llama") for _ in range(2)] == ["llama", "llama"]
    with pytest.raises(UnknownModel):
        answering(registry, "gone")
    with pytest.raises(ModelUnavailable, match="'bad' is not available: has no weights"):
        answering(registry, "bad")
    assert looked_up == ["llama", "gone", "bad"]


def test_models_of_the_library_come_and_go_and_hide_no_other() -> None:
    registry = ModelRegistry([model("first")], unusable=[UnusableModel(name="broken", reason="bad")])
    offered = [model("another name of first"), model("broken", "llama3"), model("llama", "llama3")]
    registry.set_library(offered, removed=())
    assert registry.names(EVERY_MODEL) == ("first", "llama")
    assert registry.names(AllowedModels(("first",))) == ("first",)
    registry.set_library((), removed=("llama",))
    with pytest.raises(UnknownModel):
        asyncio.run(registry.resolve("llama", EVERY_MODEL))


@pytest.mark.parametrize("name", ["hidden", "alias", "broken", "in_library", "damaged", "missing"])
def test_model_that_a_caller_may_not_use_is_unknown_to_it(name: str) -> None:
    def find(name: str) -> ServedModel:
        if name == "damaged":
            raise BrokenModel("/models/damaged", "it has no weights")
        if name == "missing":
            raise ModelNotFoundOnDisk(name, "not there")
        return model(name, "lfm2")

    registry = ModelRegistry(
        [model("first"), model("hidden", "llama3"), model("alias", "llama3")],
        unusable=[UnusableModel(name="broken", reason="has no config.json")],
        find=find,
    )
    allowed = AllowedModels(("first", "alias"))
    with pytest.raises(UnknownModel) as refused:
        answering(registry, name, allowed)
    assert str(refused.value) == f"model {name!r} is not served here; available: first"
    assert [name for name, _ in registry.entries(EVERY_MODEL)] == ["first", "hidden", "alias"]
    assert registry.unusable(allowed) == ()


def test_short_forms_name_a_served_model() -> None:
    registry = ModelRegistry([model("mlx-community/Qwen3-4B-4bit"), model("llama", "llama3")])
    names = ("mlx-community/Qwen3-4B-4bit", "Qwen3-4B-4bit", "qwen3:4b", "qwen3-4b")
    assert {answering(registry, name) for name in names} == {"mlx-community/Qwen3-4B-4bit"}
    # The directory of a model may have no organization.
    assert answering(ModelRegistry([model("Qwen3-4B-4bit")]), "qwen3:4b") == "Qwen3-4B-4bit"


def test_short_form_of_several_models_is_an_error_that_lists_them() -> None:
    registry = ModelRegistry([model("one/Model"), model("two/Model", "llama3")], any_name=True)
    with pytest.raises(UnknownModel, match="'Model' may be one/Model or two/Model; give the full name"):
        answering(registry, "Model")
    # SEC: what a caller may not use does not make a name ambiguous.
    assert answering(registry, "Model", AllowedModels(("two/*",))) == "two/Model"


def test_short_form_of_several_library_models_lists_those_of_the_caller() -> None:
    def find(name: str) -> ServedModel:
        raise AmbiguousModelName(name, "several", ["one/Model", "two/Model"])

    registry = ModelRegistry([model("first")], find=find, any_name=True)
    with pytest.raises(UnknownModel, match="may be one/Model or two/Model"):
        answering(registry, "Model")
    assert answering(registry, "Model", AllowedModels(("first", "one/*"))) == "first"


def test_longest_matching_pattern_answers_for_names_that_no_model_has() -> None:
    big, small = model("big"), model("small", "llama3")
    exact = model("claude-exact-haiku", "lfm2")
    patterns = {"claude-*": big, "claude-*-haiku*": small}
    registry = ModelRegistry([big, small, exact], patterns=patterns)
    assert answering(registry, "claude-haiku-4-5") == "big"
    assert answering(registry, "claude-3-5-haiku-20241022") == "small"
    assert answering(registry, "claude-exact-haiku") == "claude-exact-haiku"
    assert answering(registry, "claude-3-5-haiku-20241022", AllowedModels(("big",))) == "big"
    with pytest.raises(UnknownModel):
        answering(registry, "Claude-3")
    with pytest.raises(UnknownModel):
        answering(registry, "claude-3", purpose="embeddings")


def test_only_model_of_a_purpose_answers_to_any_name_unless_that_is_off() -> None:
    speech = ServedModel(name="voice", facts=read_model(tiny_models.speech("pocket_tts")))
    only = [model("only"), model("vectors", "embedder"), speech]
    by_default = ModelRegistry(only, any_name=None)
    assert answering(by_default, "gpt-4o") == "only"
    assert answering(by_default, "tts-1", purpose="speech") == "voice"
    for purpose in ("embeddings", "transcription", None):
        with pytest.raises(UnknownModel):
            answering(by_default, "gpt-4o", purpose=purpose)  # type: ignore[arg-type]
    with pytest.raises(UnknownModel):
        answering(ModelRegistry(only, any_name=False), "gpt-4o")


def test_any_name_is_off_where_another_model_could_be_meant() -> None:
    def find(name: str) -> ServedModel:
        raise ModelNotFoundOnDisk(name, "not there")

    broken = [UnusableModel(name="broken", reason="has no config.json")]
    several = [model("first"), model("second", "llama3")]
    for registry in (
        ModelRegistry(several, any_name=None),
        ModelRegistry([model("first")], unusable=broken, any_name=None),
        ModelRegistry([model("first")], find=find, any_name=None),
    ):
        with pytest.raises(UnknownModel):
            answering(registry, "gpt-4o")
    assert answering(ModelRegistry(several, any_name=True), "gpt-4o") == "first"


def test_key_with_a_list_of_models_gets_the_same_answer_for_hidden_and_unknown_names() -> None:
    registry = ModelRegistry([model("only")], any_name=None)
    for globs in (("other",), ("only",)):
        with pytest.raises(UnknownModel):
            answering(registry, "gpt-4o", AllowedModels(globs))
    several = ModelRegistry([model("first"), model("second", "llama3")], any_name=True)
    allowed = AllowedModels(("second",))
    assert [answering(several, name, allowed) for name in ("first", "gpt-4o")] == ["second", "second"]


@pytest.mark.parametrize("name", ["qwen3-8b-4bit", "Qwen3-8B-4bt", "lmstudio/Qwen3-8B-4bit"])
def test_unknown_model_error_offers_the_nearest_name(name: str) -> None:
    message = str(UnknownModel(name, ("first", "mlx-community/Qwen3-8B-4bit")))
    assert "did you mean 'mlx-community/Qwen3-8B-4bit'?" in message
    assert "did you mean" not in str(UnknownModel("gpt-9", ("first",)))
