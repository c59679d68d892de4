"""Memory of finished rows is freed, for plain and recurrent models."""

import asyncio
import re

import mlx.core as mx
import pytest

from mlxctl.state.settings import EngineSettings
from tests.engine.harness import finish, running_engine, submit

NOTHING_KEPT = EngineSettings(max_rows=8, prefix_cache_bytes=0)


@pytest.mark.parametrize("family", ["qwen3", "qwen3_next", "gemma3"])
def test_active_memory_is_constant_over_many_requests(family: str) -> None:
    async def run() -> tuple[int, int]:
        async with running_engine(family, settings=NOTHING_KEPT) as client:

            async def burst(num: int) -> int:
                lengths = [(index * 37) % 90 + 1 for index in range(num)]
                await asyncio.gather(
                    *(
                        finish(submit(client, family, [20 + index % 400] * length, max_tokens=1 + index % 9))
                        for index, length in enumerate(lengths)
                    )
                )
                return (await client.stats()).active_memory_bytes

            return await burst(10), await burst(30)

    before, after = asyncio.run(run())

    # Slack for the sampler's small arrays; one leaked row would be 60 times more.
    assert after - before < 16_384


def test_dropped_rows_free_the_batch() -> None:
    async def run() -> None:
        async with running_engine("endless", settings=NOTHING_KEPT, own_process=True) as client:
            staying = submit(client, "endless", range(20, 30), max_tokens=1_000_000)
            leaving = [submit(client, "endless", [30] * 1000, max_tokens=1_000_000) for _ in range(3)]
            for stream in leaving:
                while not any(update.token_ids for update in await stream.next()):
                    pass
            full = (await client.stats()).active_memory_bytes
            for stream in leaving:
                stream.cancel()
            async with asyncio.timeout(30):
                while (await client.stats()).active_memory_bytes >= full / 3:
                    await asyncio.sleep(0.02)
            staying.cancel()

    asyncio.run(run())


def test_process_returns_memory_after_a_long_prompt() -> None:
    async def run() -> None:
        async with running_engine("endless", settings=NOTHING_KEPT, own_process=True) as client:

            async def resident() -> int:
                size = (await client.stats()).resident_bytes
                assert size is not None
                return size

            await finish(submit(client, "endless", [20] * 50, max_tokens=4))
            before = await resident()
            await finish(submit(client, "endless", [20] * 3000, max_tokens=1))
            # The engine gives back what is free when it has had nothing to do for a second.
            async with asyncio.timeout(60):
                while await resident() - before >= 20e6:
                    await asyncio.sleep(2)

    asyncio.run(run())


def test_long_prompts_share_one_stream() -> None:
    """MLX keeps a stream's thread forever, and streams are numbered."""

    async def run() -> int:
        async with running_engine(
            "endless", settings=EngineSettings(max_rows=8, prefill_pass_max_tokens=32)
        ) as client:
            before = _stream_number()
            for start in range(20, 26):
                await finish(submit(client, "endless", [start] * 200, max_tokens=2))
            return _stream_number() - before

    assert asyncio.run(run()) == 1


def _stream_number() -> int:
    return int(re.findall(r"\d+", repr(mx.new_stream(mx.default_device())))[-1])
