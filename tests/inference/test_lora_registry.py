"""Names of LoRA adapters agree with the engine."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from mlxctl.inference.models.configured_models import ModelReader
from mlxctl.inference.models.lora_registry import LoraRegistry
from mlxctl.inference.preparation import PackedRequest
from mlxctl.ir import GenerationRequest
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import Conflict, InvalidRequest
from mlxctl.library import Library
from mlxctl.library.capability_lookup import CapabilityLookup
from mlxctl.state.settings import AdapterSettings, LibrarySettings, ModelSettings, Settings
from mlxctl.state.stores import CapabilityStore
from tests import tiny_models
from tests.engine.harness import running_engine
from tests.tiny_models.adapters import random_adapter


@asynccontextmanager
async def registry_of(directory: Path, **chosen: Any) -> AsyncIterator[LoraRegistry]:
    """Open a model for the adapters `one` and `two`.

    `chosen` are settings of adapters.
    """
    base = tiny_models.model("qwen3")
    for seed, name in enumerate(("one", "two")):
        random_adapter(base, directory / "adapters" / name, seed=seed)
    library = Library(LibrarySettings(hub_cache=directory))
    knowledge = CapabilityLookup(CapabilityStore(directory / "store.sqlite"), directory / "none.toml")
    settings = Settings(model=ModelSettings(path=base, name="m"))
    models = ModelReader(settings, library, knowledge).registry()
    async with running_engine(models=[models.model("m").spec]) as client:
        dirs = AdapterSettings(dirs=(directory / "adapters",), **chosen)
        yield LoraRegistry(client, models, dirs, lambda name: library.find_named(name).path)


def test_mount_of_a_cancelled_request_is_finished(tmp_path: Path) -> None:
    async def check() -> None:
        async with registry_of(tmp_path) as lora:
            mounting = asyncio.create_task(lora.add("a", "one", None, EVERY_MODEL))
            await asyncio.sleep(0)
            mounting.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await mounting
            with pytest.raises(Conflict, match="mounted on model 'm' already"):
                await lora.add("a", "two", None, EVERY_MODEL)
            assert (await lora.remove("a", None, EVERY_MODEL)).shown_path == "one"
            assert (await lora.add("a", "two", None, EVERY_MODEL)).shown_path == "two"

    asyncio.run(check())


def test_adapter_that_was_replaced_is_a_conflict(tmp_path: Path) -> None:
    async def check() -> None:
        async with registry_of(tmp_path) as lora:
            await lora.add("a", "one", None, EVERY_MODEL)
            head = lora.apply(PackedRequest.of(GenerationRequest(model="m:a")), EVERY_MODEL).head
            await lora.ensure_mounted("m", head)
            await lora.remove("a", None, EVERY_MODEL)
            with pytest.raises(InvalidRequest, match="'a' is not mounted"):
                await lora.ensure_mounted("m", head)
            await lora.add("a", "two", None, EVERY_MODEL)
            with pytest.raises(Conflict, match="mounted again"):
                await lora.ensure_mounted("m", head)

    asyncio.run(check())


def test_default_adapter_is_that_of_requests_that_choose_none(tmp_path: Path) -> None:
    def names(lora: LoraRegistry, **fields: Any) -> list[str]:
        head = lora.apply(PackedRequest.of(GenerationRequest(**{"model": "m"} | fields)), EVERY_MODEL).head
        return [each.name for each in head.adapters or ()]

    async def check() -> None:
        paths = {name: tmp_path / "adapters" / name for name in ("one", "two")}
        async with registry_of(tmp_path, paths=paths, default="one") as lora:
            assert names(lora) == ["one"]
            assert names(lora, model="m:two") == ["two"]
            assert names(lora, model="m:none") == names(lora, adapters=()) == []
            with pytest.raises(Conflict, match=r"is adapters\.default"):
                await lora.remove("one", None, EVERY_MODEL)

    asyncio.run(check())


def test_unknown_default_adapter_ends_the_start(tmp_path: Path) -> None:
    async def check() -> None:
        with pytest.raises(InvalidRequest, match=r"adapters\.default names 'three'"):
            async with registry_of(tmp_path, default="three"):
                pass

    asyncio.run(check())
