"""Models are loaded and unloaded beside decoding rows; memory is freed."""

import asyncio
import json
import re
import shutil
from pathlib import Path

import mlx.core as mx
import pytest

from mlxctl.engine import EngineClient, loop
from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.client.pending_loads import PendingModelLoads
from mlxctl.engine.loading import loader
from mlxctl.engine.wire.reports import ModelLoadStep, ModelUnloaded
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import BrokenModel, ModelInUse, NotEnoughMemory, SequenceFailed
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import finish, running_engine, submit

PROMPT = range(20, 60)


def source(name: str, path: Path | None = None) -> ModelSpec:
    directory = path or tiny_models.model(name)
    return ModelSpec(
        name=name,
        path=directory,
        weights_bytes=sum(file.stat().st_size for file in directory.glob("*.safetensors")),
    )


async def active_bytes(client: EngineClient) -> int:
    return (await client.stats()).active_memory_bytes


@pytest.mark.parametrize("family", ["llama3", "lfm2", "qwen3_next"])
def test_unloading_frees_memory_and_the_model_loads_again(family: str) -> None:
    async def run() -> None:
        async with running_engine("endless", settings=EngineSettings(prefix_cache_bytes=0)) as client:
            before = await active_bytes(client)
            loaded = await client.load(source(family))
            first = await finish(submit(client, family, PROMPT))

            unloaded = await client.unload(family)

            assert unloaded.weights_bytes == loaded.weights_bytes
            assert unloaded.freed_bytes >= loaded.weights_bytes
            assert await active_bytes(client) - before < 16_384
            assert list(client.loaded) == ["endless"]
            with pytest.raises(SequenceFailed, match="not loaded"):
                await finish(submit(client, family, PROMPT))
            await client.load(source(family))
            assert (await finish(submit(client, family, PROMPT))).token_ids == first.token_ids

    asyncio.run(run())


def test_loading_again_creates_no_further_streams() -> None:
    async def run() -> None:
        async with running_engine("qwen3") as client:
            numbers = []
            for _ in range(3):
                await client.unload("qwen3")
                await client.load(source("qwen3"))
                # MLX numbers streams in order and never ends their threads.
                numbers.append(int(re.findall(r"\d+", str(mx.new_stream(mx.cpu)))[-1]))
        assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]

    asyncio.run(run())


def test_cached_prefixes_survive_unloading() -> None:
    async def run() -> None:
        async with running_engine("qwen3") as client:
            first = await finish(submit(client, "qwen3", range(20, 420)))
            await client.unload("qwen3")
            await client.load(source("qwen3"))

            again = await finish(submit(client, "qwen3", range(20, 420)))
            assert (again.num_cached, again.token_ids) == (399, first.token_ids)
            assert (await client.stats()).cache_hits["supersequence"] == 1

    asyncio.run(run())


def test_model_in_use_is_not_unloaded() -> None:
    async def run() -> None:
        async with running_engine("endless") as client:
            stream = submit(client, "endless", PROMPT, max_tokens=200)

            with pytest.raises(ModelInUse) as refusal:
                await client.unload("endless")

            assert refusal.value.retry_after_seconds > 0
            assert len((await finish(stream)).token_ids) == 200
            await client.unload("endless")
            assert not client.loaded

    asyncio.run(run())


def test_rows_decode_while_another_model_loads() -> None:
    async def run() -> None:
        async with running_engine("endless") as client:
            alone = await finish(submit(client, "endless", PROMPT, max_tokens=150))
            stream = submit(client, "endless", PROMPT, max_tokens=150)
            loading = asyncio.gather(client.load(source("llama3")), client.load(source("lfm2")))

            assert (await finish(stream)).token_ids == alone.token_ids
            await loading
            assert set(client.loaded) == {"endless", "llama3", "lfm2"}

    asyncio.run(run())


def test_load_reports_the_bytes_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[int] = []
    take_report = PendingModelLoads.on_progress

    def record(loads: PendingModelLoads, report: ModelLoadStep) -> None:
        take_report(loads, report)
        if report.name == "llama3":
            seen.append(loads.num_bytes_read["llama3"])

    monkeypatch.setattr(PendingModelLoads, "on_progress", record)
    monkeypatch.setattr(loader, "_PIECE_BYTES", 1)
    monkeypatch.setattr(loop, "_IDLE_LOAD_SLICE_SECONDS", 1e-4)
    monkeypatch.setattr(loop, "_PROGRESS_SECONDS", 0.0)

    async def run() -> None:
        async with running_engine("endless") as client:
            loaded = await client.load(source("llama3"))
            assert seen == sorted(seen)
            assert 0 < seen[0] < seen[-1] <= loaded.weights_bytes
            assert client.num_bytes_read("llama3") == 0

    asyncio.run(run())


def test_unloading_ends_the_progress_of_an_abandoned_load() -> None:
    async def run() -> None:
        loads, connection = PendingModelLoads(load_timeout_seconds=60.0), EngineConnection(lambda _: None)
        load = asyncio.create_task(loads.load(connection, source("llama3")))
        await asyncio.sleep(0)
        load.cancel()
        await asyncio.wait({load})

        loads.on_progress(ModelLoadStep(name="llama3", num_bytes=5))
        assert loads.num_bytes_read == {"llama3": 5}
        loads.on_unloaded(ModelUnloaded(name="llama3"))
        assert loads.num_bytes_read == {}

    asyncio.run(run())


def test_two_models_alternate_under_a_limit_for_one() -> None:
    """Weights evict cached prefixes, and the weights of another model."""
    needed = max(source(name).weights_bytes for name in ("qwen3", "llama3"))

    async def run() -> None:
        settings = EngineSettings(memory_limit_bytes=int(needed * 1.5))
        # The limit is that of a process.
        async with running_engine("qwen3", settings=settings, own_process=True) as client:
            with pytest.raises(NotEnoughMemory):
                await client.load(source("llama3"))
            answers: dict[str, list[list[int]]] = {"qwen3": [], "llama3": []}
            for _ in range(3):
                answers["qwen3"].append((await finish(submit(client, "qwen3", PROMPT))).token_ids)
                await client.unload("qwen3")
                await client.load(source("llama3"))
                answers["llama3"].append((await finish(submit(client, "llama3", PROMPT))).token_ids)
                assert await active_bytes(client) < int(needed * 1.5)
                await client.unload("llama3")
                await client.load(source("qwen3"))
            assert all(given == [given[0]] * 3 for given in answers.values())

    asyncio.run(run())


def test_broken_model_does_not_affect_others(tmp_path: Path) -> None:
    shutil.copytree(tiny_models.model("llama3"), tmp_path, dirs_exist_ok=True)
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(weights.read_bytes()[:-1000])

    async def run() -> None:
        async with running_engine("endless") as client:
            before = await active_bytes(client)
            stream = submit(client, "endless", PROMPT, max_tokens=100)

            with pytest.raises(BrokenModel):
                await client.load(source("broken", tmp_path))

            assert len((await finish(stream)).token_ids) == 100
            assert await active_bytes(client) - before < 1_000_000
            await client.load(source("llama3"))

    asyncio.run(run())


def test_any_error_of_the_library_breaks_only_its_model(tmp_path: Path) -> None:
    """It reads a variable here that it has not set."""
    model = Path(shutil.copytree(tiny_models.model("qwen3"), tmp_path / "m"))
    config = json.loads((model / "config.json").read_text())
    config["quantization_config"] = {"quant_method": "gptq"}
    (model / "config.json").write_text(json.dumps(config))

    async def run() -> None:
        async with running_engine("endless") as client:
            with pytest.raises(BrokenModel, match="cannot be loaded"):
                await client.load(source("m", model))
            assert len((await finish(submit(client, "endless", PROMPT, max_tokens=5))).token_ids) == 5

    asyncio.run(run())


def test_slow_load_times_out_and_others_are_served() -> None:
    async def run() -> None:
        async with running_engine("endless") as client:
            client._supervisor._model_loads._load_timeout_seconds = 0.0
            with pytest.raises(BrokenModel, match="takes longer"):
                await client.load(source("llama3"))

            assert list(client.loaded) == ["endless"]
            assert len((await finish(submit(client, "endless", PROMPT, max_tokens=5))).token_ids) == 5

    asyncio.run(run())
