"""What the prefix cache holds can be asked of a running engine, and changed; and every request says how it
wants to use it.
"""

import asyncio
import random

import pytest

from mlxctl.engine import CachedChunk, EngineClient
from mlxctl.ir import CacheMode, CacheOptions
from mlxctl.settings import EngineSettings

from .harness import finish, running_engine, submit

SETTINGS = EngineSettings(max_rows=8, prefix_cache_bytes=1 << 28, cache_disk_bytes=0)
END = 3


def prompt(seed: int, num: int = 600) -> list[int]:
    generator = random.Random(seed)
    return [*(generator.randrange(10, 500) for _ in range(num)), END]


async def ask(
    client: EngineClient,
    tokens: list[int],
    *,
    model: str = "qwen3",
    mode: CacheMode = "full",
    ttl: float | None = None,
) -> int:
    cache = CacheOptions(mode=mode, ttl_seconds=ttl)
    output = await finish(submit(client, model, tokens, max_tokens=8, stop=frozenset({END}), cache=cache))
    return output.num_cached


async def listed(client: EngineClient, *, limit: int = 1000) -> list[CachedChunk]:
    """Everything, page by page."""
    chunks: list[CachedChunk] = []
    while True:
        answer = await client.ask_cache("list", offset=len(chunks), limit=limit)
        if not answer.chunks:
            return chunks
        chunks += answer.chunks


def test_pages_tell_every_chunk_once_with_what_it_builds_on_and_its_uses() -> None:
    async def run() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            for seed in (1, 2, 3, 1):
                await ask(client, prompt(seed))
            await ask(client, [*prompt(1)[:-1], 7, 8, 9])
            whole = await listed(client)
            paged = await listed(client, limit=2)
            assert sum(chunk.memory_bytes for chunk in whole) == (await client.stats()).cache_bytes
        assert paged == whole
        assert len({chunk.key for chunk in whole}) == len(whole) == 7
        roots = {chunk.key: chunk for chunk in whole if not chunk.parent}
        assert all(chunk.parent in roots for chunk in whole if chunk.start)
        assert [chunk.num_hits for chunk in whole[-1:]] == [2]
        assert all(
            chunk.model == "qwen3" and chunk.memory_bytes > 0 and not chunk.disk_bytes for chunk in whole
        )

    asyncio.run(run())


def test_what_is_cleared_is_computed_again_and_what_is_pinned_stays() -> None:
    async def run() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            await ask(client, prompt(1))
            await ask(client, prompt(2))
            leaf = next(
                chunk
                for chunk in await listed(client)
                if chunk.start and chunk.tokens[:8] == packed(prompt(1))[2048:2056]
            )
            assert (await client.ask_cache("pin", keys=[leaf.key])).num_changed == 1
            cleared = await client.ask_cache("clear")
            kept, gone = await ask(client, prompt(1)), await ask(client, prompt(2))
            assert (await client.ask_cache("unpin", keys=[leaf.key])).num_changed == 1
            dropped = await client.ask_cache("drop", keys=[leaf.parent])
        assert (cleared.num_changed, cleared.num_chunks) == (2, 2)
        assert (kept, gone) == (600, 0)
        assert dropped.num_changed == 2

    asyncio.run(run())


@pytest.mark.parametrize("model", ["qwen3", "lfm2"])
def test_without_the_cache_nothing_is_taken_over_and_nothing_is_kept(model: str) -> None:
    async def run() -> None:
        async with running_engine(model, settings=SETTINGS) as client:
            await ask(client, prompt(1), model=model, mode="off")
            assert await listed(client) == []
            await ask(client, prompt(1), model=model)
            assert await ask(client, prompt(1), model=model, mode="off") == 0
            assert await ask(client, prompt(1), model=model) >= 600 - 1

    asyncio.run(run())


@pytest.mark.parametrize("model", ["qwen3", "lfm2"])
def test_of_a_prefix_only_request_the_prompt_is_kept_and_the_answer_is_not(model: str) -> None:
    async def run() -> None:
        async with running_engine(model, settings=SETTINGS) as client:
            await ask(client, prompt(1), model=model, mode="prefix")
            kept = max(chunk.start + len(chunk.tokens) // 4 for chunk in await listed(client))
            again = await ask(client, prompt(1), model=model)
        assert kept <= len(prompt(1))
        assert again == len(prompt(1)) - 1

    asyncio.run(run())


def test_a_request_says_how_long_what_it_leaves_is_kept_and_a_longer_time_of_another_wins() -> None:
    async def run() -> None:
        async with running_engine("qwen3", settings=SETTINGS) as client:
            await ask(client, prompt(1), ttl=0.2)
            await ask(client, prompt(2), ttl=0.2)
            await ask(client, prompt(2), ttl=3600)
            assert all(chunk.expires_at is not None for chunk in await listed(client))
            await asyncio.sleep(0.3)
            short, long = await client.look_up("qwen3", prompt(1)), await client.look_up("qwen3", prompt(2))
        assert (short.usage.num_cached_tokens, long.usage.num_cached_tokens) == (0, 600)

    asyncio.run(run())


def test_it_is_told_why_what_was_known_is_not_there_any_more() -> None:
    async def run() -> None:
        small = EngineSettings(max_rows=2, prefix_cache_bytes=600_000, cache_disk_bytes=0)
        async with running_engine("qwen3", settings=small) as client:
            for seed in range(6):
                await ask(client, prompt(seed))
            evicted, never = (
                await client.look_up("qwen3", prompt(0)),
                await client.look_up("qwen3", prompt(99)),
            )
            await client.ask_cache("clear")
            cleared = await client.look_up("qwen3", prompt(5))
            await ask(client, prompt(7), ttl=0.05)
            await asyncio.sleep(0.1)
            expired = await client.look_up("qwen3", prompt(7))
            await client.ask_cache("gc")
            swept = await client.look_up("qwen3", prompt(7))
        reasons = [found.usage.eviction_reason for found in (evicted, never, cleared, expired, swept)]
        assert reasons == ["evicted", None, "cleared", "expired", "expired"]

    asyncio.run(run())


def test_tokens_that_are_known_without_a_state_to_go_on_with_are_told_apart() -> None:
    async def run() -> None:
        async with running_engine("lfm2", settings=SETTINGS) as client:
            await ask(client, prompt(1, 600), model="lfm2")
            found = await client.look_up("lfm2", [*prompt(1, 600)[:500], *prompt(2, 20)])
        assert found.usage.num_matched_tokens == 500
        assert found.usage.num_cached_tokens < 500

    asyncio.run(run())


def packed(tokens: list[int]) -> bytes:
    from mlxctl.ir.tokens import pack

    return pack(tokens).tobytes()
