"""The next turn takes the last conversation's caches, within the cache budget."""

import asyncio

import mlx.core as mx
import pytest
from mlx_lm import load

from mlxctl.engine import EngineClient
from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.generation.prefix_coordinator import LastConversation
from mlxctl.ir import CacheOptions
from mlxctl.ir.tokens import pack
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import finish, running_engine, submit

FAMILIES = ["qwen3", "gemma3", "lfm2", "qwen3_next"]
PROMPT = [20 + place % 400 for place in range(600)]


async def working_cache_bytes(client: EngineClient) -> int:
    return (await client.stats()).cache_working_bytes


def last_conversation(family: str, num_tokens: int) -> LastConversation:
    model = load(str(tiny_models.model(family)))[0]
    caches = kv.new_caches(model)
    model(mx.array([PROMPT[:num_tokens]]), cache=caches)
    return LastConversation.of(pack(PROMPT[:num_tokens]), caches)


def test_trimmable_cache_serves_the_common_prefix() -> None:
    last = last_conversation("qwen3", 100)

    assert last.num_usable(pack(PROMPT[:150])) == 100
    assert last.num_usable(pack([*PROMPT[:80], 5, 6])) == 80
    assert last.num_usable(pack(PROMPT[:100])) == 99
    assert all(layer.offset == 80 for layer in last.take(80))


def test_prompt_that_shares_little_does_not_take_the_cache() -> None:
    assert last_conversation("qwen3", 100).num_usable(pack([*PROMPT[:49], *[5] * 100])) == 0


@pytest.mark.parametrize("family", ["gemma3", "lfm2", "qwen3_next"])
def test_recurrent_cache_serves_only_a_full_continuation(family: str) -> None:
    last = last_conversation(family, 100)

    assert last.num_usable(pack(PROMPT[:101])) == 100
    assert last.num_usable(pack(PROMPT[:100])) == 0
    assert last.num_usable(pack([*PROMPT[:99], 5, 6])) == 0


def test_cache_is_taken_without_a_copy() -> None:
    last = last_conversation("qwen3", 100)
    arrays = [layer.keys for layer in last.caches]

    assert all(one is layer.keys for one, layer in zip(arrays, last.take(90), strict=True))


@pytest.mark.parametrize("family", FAMILIES)
def test_next_turn_takes_the_cache_and_answers_as_a_cold_run(family: str) -> None:
    async def run() -> None:
        async with running_engine(family) as client:
            answer = (await finish(submit(client, family, PROMPT, max_tokens=9))).token_ids
            num_bytes = await working_cache_bytes(client)
            prompt = [*PROMPT, *answer, 30, 31, 32]
            # Long enough to decode still when the statistics are taken.
            again = submit(client, family, prompt, max_tokens=80)
            first = await again.next()
            num_bytes_meanwhile = await working_cache_bytes(client)
            token_ids = [token_id for update in first for token_id in update.token_ids] + (
                await finish(again)
            ).token_ids
        async with running_engine(family, settings=EngineSettings(prefix_cache_bytes=0)) as client:
            cold = (await finish(submit(client, family, prompt, max_tokens=80))).token_ids
        assert num_bytes > 0
        assert num_bytes_meanwhile == 0
        assert max(update.cache_usage.num_cached_tokens for update in first) >= len(PROMPT) + len(answer) - 1
        assert token_ids == cold

    asyncio.run(run())


@pytest.mark.parametrize("family", ["qwen3", "qwen3_next"])
def test_cancelled_rows_free_their_memory(family: str) -> None:
    async def run() -> None:
        async with running_engine(family) as client:
            await client.ask_cache("clear")
            before = (await client.stats()).active_memory_bytes
            for _ in range(4):
                stream = submit(client, family, PROMPT, max_tokens=500)
                while not any(update.token_ids for update in await stream.next()):
                    pass
                stream.cancel()
            async with asyncio.timeout(30):
                while (await client.stats()).num_decoding:
                    await asyncio.sleep(0.01)
            await client.ask_cache("clear")
            stats = await client.stats()
        assert (stats.cache_bytes, stats.cache_working_bytes) == (0, 0)
        assert stats.active_memory_bytes - before < 16_384

    asyncio.run(run())


def test_working_cache_is_released_before_prefixes_are_evicted() -> None:
    async def run(**values: int) -> tuple[int, int, int]:
        async with running_engine("qwen3", settings=EngineSettings(**values)) as client:
            await finish(submit(client, "qwen3", PROMPT))
            stats = await client.stats()
        return stats.cache_bytes, stats.cache_working_bytes, stats.cache_evicted

    prefixes, working, _ = asyncio.run(run())

    assert working > 0
    assert asyncio.run(run(prefix_cache_bytes=prefixes + 1)) == (prefixes, 0, 0)
    # How much room a working cache has depends on how long reading took.
    num_bytes, num_working_bytes, num_evicted = asyncio.run(run(prefix_cache_bytes=prefixes + 4 * working))
    assert (num_bytes, num_working_bytes > 0, num_evicted) == (prefixes, True, 0)


@pytest.mark.parametrize(
    "cache", [CacheOptions(mode="off"), CacheOptions(mode="prefix"), CacheOptions(ttl_seconds=60)]
)
def test_limited_cache_options_leave_no_working_cache(cache: CacheOptions) -> None:
    async def run() -> int:
        async with running_engine("qwen3") as client:
            await finish(submit(client, "qwen3", PROMPT, cache=cache))
            return await working_cache_bytes(client)

    assert asyncio.run(run()) == 0


@pytest.mark.parametrize("family", ["gemma3", "lfm2", "qwen3_next"])
def test_prompt_that_diverges_in_the_middle_reuses_the_part_before(family: str) -> None:
    changed = [*PROMPT[:400], 7, *PROMPT[401:]]

    async def run() -> None:
        async with running_engine(family) as client:
            await finish(submit(client, family, PROMPT, max_tokens=2))
            reused = await finish(submit(client, family, changed, max_tokens=20))
            cold = await finish(
                submit(client, family, changed, max_tokens=20, cache=CacheOptions(mode="off"))
            )
        assert reused.num_cached == (len(PROMPT) - 1) // 2
        assert reused.token_ids == cold.token_ids

    asyncio.run(run())
