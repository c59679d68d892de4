"""Resolution of names in requests to models."""

import asyncio

import pytest

from mlxctl.errors import BrokenModel, ModelNotFoundOnDisk, ModelUnavailable, UnknownModel
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.served_model import ServedModel, UnusableModel
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.models import read_model
from tests import tiny_models


def model(name: str, family: str = "qwen3") -> ServedModel:
    return ServedModel(name=name, facts=read_model(tiny_models.model(family)))


def test_directory_is_one_model_under_all_its_names() -> None:
    registry = ModelRegistry([model("first")], [model("second"), model("other", "llama3")])
    assert asyncio.run(registry.resolve("second", EVERY_MODEL)).name == "first"
    assert [own.name for own in registry.models] == ["first", "other"]
    assert [(name, own.name) for name, own in registry.entries(EVERY_MODEL)] == [
        ("first", "first"),
        ("second", "first"),
        ("other", "other"),
    ]


def test_unknown_name_raises_error_that_lists_the_models() -> None:
    with pytest.raises(UnknownModel, match="'missing' is not served here; available: first"):
        asyncio.run(ModelRegistry([model("first")]).resolve("missing", EVERY_MODEL))


def test_unusable_model_is_rejected_with_its_reason() -> None:
    registry = ModelRegistry(
        [model("first")], unusable=[UnusableModel(name="broken", reason="has no config.json")]
    )
    with pytest.raises(ModelUnavailable, match=r"'broken' is not available: has no config\.json"):
        asyncio.run(registry.resolve("broken", EVERY_MODEL))


def test_library_model_is_found_once_and_stays_registered() -> None:
    looked_up: list[str] = []

    def find(name: str) -> ServedModel:
        looked_up.append(name)
        if name == "gone":
            raise ModelNotFoundOnDisk(name, "not there")
        if name == "bad":
            raise BrokenModel("/models/bad", "model '/models/bad' has no weights")
        return model(name, "llama3")

    async def scenario() -> None:
        registry = ModelRegistry([model("first")], find=find)
        found = [await registry.resolve("llama", EVERY_MODEL) for _ in range(2)]
        assert [each.name for each in found] == ["llama", "llama"]
        with pytest.raises(UnknownModel):
            await registry.resolve("gone", EVERY_MODEL)
        with pytest.raises(ModelUnavailable, match="'bad' is not available: has no weights"):
            await registry.resolve("bad", EVERY_MODEL)

    asyncio.run(scenario())
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
        asyncio.run(registry.resolve(name, allowed))
    assert str(refused.value) == f"model {name!r} is not served here; available: first"
    assert [name for name, _ in registry.entries(EVERY_MODEL)] == ["first", "hidden", "alias"]
    assert registry.unusable(allowed) == ()


@pytest.mark.parametrize("name", ["qwen3-8b-4bit", "Qwen3-8B-4bt", "lmstudio/Qwen3-8B-4bit"])
def test_unknown_model_error_offers_the_nearest_name(name: str) -> None:
    message = str(UnknownModel(name, ("first", "mlx-community/Qwen3-8B-4bit")))
    assert "did you mean 'mlx-community/Qwen3-8B-4bit'?" in message
    assert "did you mean" not in str(UnknownModel("gpt-9", ("first",)))
