"""Queries and changes of a running engine's cache; cache modes."""

import asyncio
import random

import pytest

from mlxctl.engine import CachedChunk, EngineClient
from mlxctl.ir import CacheMode, CacheOptions
from mlxctl.state.settings import EngineSettings

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


def test_listing_pages_returns_every_chunk_once_with_parent_and_hits() -> None:
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


def test_clear_drops_unpinned_chunks_only() -> None:
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
            num_pinned, num_unpinned = await ask(client, prompt(1)), await ask(client, prompt(2))
            assert (await client.ask_cache("unpin", keys=[leaf.key])).num_changed == 1
            dropped = await client.ask_cache("drop", keys=[leaf.parent])
        assert (cleared.num_changed, cleared.num_chunks) == (2, 2)
        assert (num_pinned, num_unpinned) == (600, 0)
        assert dropped.num_changed == 2

    asyncio.run(run())


@pytest.mark.parametrize("model", ["qwen3", "lfm2"])
def test_cache_mode_off_reuses_and_stores_nothing(model: str) -> None:
    async def run() -> None:
        async with running_engine(model, settings=SETTINGS) as client:
            await ask(client, prompt(1), model=model, mode="off")
            assert await listed(client) == []
            await ask(client, prompt(1), model=model)
            assert await ask(client, prompt(1), model=model, mode="off") == 0
            assert await ask(client, prompt(1), model=model) >= 600 - 1

    asyncio.run(run())


@pytest.mark.parametrize("model", ["qwen3", "lfm2"])
def test_cache_mode_prefix_stores_the_prompt_without_the_answer(model: str) -> None:
    async def run() -> None:
        async with running_engine(model, settings=SETTINGS) as client:
            await ask(client, prompt(1), model=model, mode="prefix")
            num_stored = max(chunk.start + len(chunk.tokens) // 4 for chunk in await listed(client))
            again = await ask(client, prompt(1), model=model)
        assert num_stored <= len(prompt(1))
        assert again == len(prompt(1)) - 1

    asyncio.run(run())


def test_the_longest_ttl_of_several_requests_applies() -> None:
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


def test_look_up_returns_the_eviction_reason() -> None:
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


def test_matched_tokens_without_a_checkpoint_are_not_counted_as_cached() -> None:
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
