"""Records split where conversations branch: stored once, restored exactly."""

import asyncio
from pathlib import Path

import mlx.core as mx
import pytest
from mlx.utils import tree_flatten

from mlxctl.engine import EngineClient
from mlxctl.prefix_cache.packing import Record, pack_record
from mlxctl.prefix_cache.records import KVRecord, StateRecord
from mlxctl.prefix_cache.splitting import join_records, split_record
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import running_engine
from tests.prefix_cache.test_reuse import WARM, ask, cold, text

# Not a multiple of the chunk size, and more than one chunk.
TRUNK = text(700, 1)
PROMPTS = [[*TRUNK, *text(40, 10 + agent)] for agent in range(6)]


def record(num_tokens: int) -> KVRecord:
    keys, values = (mx.random.normal((3, 2, num_tokens, 64), key=mx.random.key(seed)) for seed in (1, 2))
    mx.eval(keys, values)
    return KVRecord(((0, 1, 2),), ((keys, values),))


def arrays(whole: Record) -> list[mx.array]:
    assert not isinstance(whole, StateRecord)
    return [array for _, array in tree_flatten(list(whole.groups))]


@pytest.mark.parametrize("num_tokens", [1, 100, 255])
@pytest.mark.parametrize("bits", [None, 8, 4])
def test_split_and_joined_record_is_unchanged(num_tokens: int, bits: int | None) -> None:
    whole = pack_record(record(256), bits) if bits else record(256)

    parts = split_record(whole, num_tokens)

    assert sum(part.num_bytes for part in parts) == whole.num_bytes
    assert [part.num_buffers for part in parts] == [whole.num_buffers] * 2
    assert all(
        mx.array_equal(one, other)
        for one, other in zip(arrays(join_records(parts)), arrays(whole), strict=True)
    )


async def stored(client: EngineClient, family: str, prompts: list[list[int]]) -> int:
    before = (await client.stats()).cache_bytes
    for prompt in prompts:
        await ask(client, family, prompt, num=1)
    return (await client.stats()).cache_bytes - before


def test_branches_take_only_bytes_of_prefix_and_tails() -> None:
    async def run() -> None:
        async with running_engine("qwen3", settings=WARM) as client:
            of_trunk = await stored(client, "qwen3", [TRUNK])
            of_tails = await stored(client, "qwen3", PROMPTS)
        assert of_tails <= 1.05 * of_trunk * len(PROMPTS) * 40 / len(TRUNK)

    asyncio.run(run())


@pytest.mark.parametrize("family", ["qwen3", "qwen3_next"])
def test_split_records_round_trip_through_disk(tmp_path: Path, family: str) -> None:
    async def run() -> None:
        # So little memory that every conversation pushes out the one before.
        small = EngineSettings(max_rows=8, prefix_cache_bytes=800_000, cache_dir=tmp_path)
        prompts = PROMPTS[:3]
        answers = []
        for settings in (small, small, WARM):
            async with running_engine(family, settings=settings) as client:
                answers.append([await ask(client, family, prompt) for prompt in (*prompts, *prompts[::-1])])
        expected = await cold(family, prompts)
        for outputs in answers:
            assert [output.token_ids for output in outputs] == expected + expected[::-1]
        assert all(output.num_cached >= 700 for output in answers[1])

    asyncio.run(run())
