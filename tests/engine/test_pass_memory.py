"""Prefill passes are within their memory, and as large as it allows."""

import asyncio

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.pass_memory import UNBOUNDED_PASSES, PassMemory
from mlxctl.state.settings import EngineSettings
from tests.engine.harness import finish, running_engine, submit

SIZES = st.integers(0, 1 << 20)


@given(SIZES, SIZES, st.none() | st.integers(1, 5000), st.integers(1, 1 << 40), st.integers(0, 1 << 20))
def test_largest_pass_is_the_largest_allowed(
    bytes_per_token: int, bytes_per_score: int, window: int | None, max_bytes: int, context: int
) -> None:
    memory = PassMemory(
        bytes_per_token=bytes_per_token, bytes_per_score=bytes_per_score, window=window, max_bytes=max_bytes
    )

    largest = memory.largest_pass(context, maximum=2048)

    assert 1 <= largest <= 2048
    assert memory.allows(largest, end=context + largest)
    assert largest == 2048 or not memory.allows(largest + 1, end=context + largest + 1)


def test_pass_without_a_bound_has_any_size() -> None:
    assert UNBOUNDED_PASSES.largest_pass(1 << 30, maximum=2048) == 2048
    assert UNBOUNDED_PASSES.allows(1 << 30, end=1 << 30)


def test_prefill_of_a_long_prompt_needs_little_memory() -> None:
    async def peak() -> int:
        settings = EngineSettings(max_rows=8, prefix_cache_bytes=0)
        async with running_engine("qwen3", settings=settings, own_process=True) as client:
            for start in (20, 21):
                await finish(submit(client, "qwen3", [start] * 2000, max_tokens=1))
            return (await client.stats()).peak_memory_bytes

    # In one pass, the scores alone would take 68 MB.
    assert asyncio.run(peak()) < 10e6
