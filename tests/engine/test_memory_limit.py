"""The memory limit holds, and what fits is answered."""

import asyncio
from collections.abc import Iterator
from typing import NamedTuple

import mlx.core as mx
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mlxctl.engine.backend import CPU, METAL, Backend
from mlxctl.engine.wire.reports import Stats
from mlxctl.ir import KVFormat, TextPart
from mlxctl.ir.errors import ContextOverBudget
from mlxctl.state.settings import EngineSettings
from tests import tiny_models
from tests.engine.harness import finish, running_engine, submit
from tests.engine.stepped_engine import SteppedEngine
from tests.engine.vision_harness import noise, prepared

# Peak memory relative to the limit.
TOLERANCE = 1.05
KINDS = ["qwen3", "lfm2", "gemma3", "quantized", "vision"]
MANY_ROWS = EngineSettings(max_rows=8)


@pytest.fixture(autouse=True)
def unlimited_again() -> Iterator[None]:
    limit = mx.set_memory_limit(1 << 40)
    yield
    mx.set_memory_limit(limit)


class Ask(NamedTuple):
    """A request that comes before the n-th step."""

    step: int
    num_prompt_tokens: int
    num_tokens: int
    priority: int


ASKS = st.lists(
    st.builds(
        Ask,
        step=st.integers(0, 60),
        num_prompt_tokens=st.sampled_from([3, 40, 200, 400]),
        num_tokens=st.sampled_from([2, 40, 150]),
        priority=st.sampled_from([-10, 0]),
    ),
    min_size=2,
    max_size=6,
)


@pytest.mark.parametrize("kind", KINDS)
@settings(
    max_examples=2,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(asks=ASKS, tokens_of_room=st.sampled_from([1000, 2000]), backend=st.sampled_from([CPU, METAL]))
def test_random_mix_stays_within_the_limit_and_is_answered(
    kind: str, asks: list[Ask], tokens_of_room: int, backend: Backend
) -> None:
    engine = limited_engine(kind, tokens_of_room=tokens_of_room, backend=backend)
    waiting, numbers, num_steps = sorted(asks), [], 0
    while waiting or engine.has_work:
        while waiting and (waiting[0].step <= num_steps or not engine.has_work):
            numbers.append(ask(engine, kind, waiting.pop(0), number=len(numbers)))
        engine.step()
        num_steps += 1

    assert [engine.failure(number) for number in numbers] == [None] * len(asks)
    assert engine.is_done(*numbers)
    assert engine.peak_share <= TOLERANCE


def limited_engine(kind: str, *, tokens_of_room: int, backend: Backend) -> SteppedEngine:
    """Return an engine with memory for so many tokens."""

    def create(room_bytes: int | None) -> SteppedEngine:
        if kind == "vision":
            model = tiny_models.trained("pixtral_colors")
            return SteppedEngine("m", model=model, settings=MANY_ROWS, backend=backend, room_bytes=room_bytes)
        return SteppedEngine(
            "qwen3" if kind == "quantized" else kind,
            kv_format=KVFormat(bits=8, group_size=32) if kind == "quantized" else None,
            settings=MANY_ROWS,
            backend=backend,
            room_bytes=room_bytes,
        )

    # What other tests of this process hold may grow by some hundred kB meanwhile.
    return create(room_for(create(None), tokens_of_room) + 300_000)


def room_for(sizes: SteppedEngine, num_tokens: int) -> int:
    """Return memory for so many tokens, states and a pass."""
    return num_tokens * sizes.kv_bytes_per_token + 8 * sizes.state_bytes + 300_000


def ask(engine: SteppedEngine, kind: str, asked: Ask, *, number: int) -> int:
    """Submit a request; every second one may have an image."""
    if kind == "vision" and number % 2:
        prompt = prepared(tiny_models.trained("pixtral_colors"), noise(number), TextPart(text="Which color?"))
        return engine.submit(
            list(prompt.token_ids),
            max_tokens=asked.num_tokens,
            priority=asked.priority,
            images=list(prompt.images),
        )
    tokens = [20 + (31 * number + place) % 400 for place in range(asked.num_prompt_tokens)]
    return engine.submit(tokens, max_tokens=asked.num_tokens, priority=asked.priority)


PROMPTS = [[20 + (57 * number + place) % 400 for place in range(60)] for number in range(3)]


# Room for about 1,000 tokens in a process of its own: in this one, other tests free memory at any time.
ROOM_FOR_TWO_ANSWERS = EngineSettings(memory_limit_bytes=2_000_000, max_rows=8)


def test_row_that_gave_its_memory_to_others_continues_token_for_token() -> None:
    async def answers(limits: EngineSettings) -> tuple[list[list[int]], Stats]:
        is_limited = limits is ROOM_FOR_TWO_ANSWERS
        async with running_engine("endless", settings=limits, own_process=is_limited) as client:
            rows = [submit(client, "endless", prompt, max_tokens=450) for prompt in PROMPTS]
            outputs = await asyncio.gather(*map(finish, rows))
            return [output.token_ids for output in outputs], await client.stats()

    unlimited, _ = asyncio.run(answers(MANY_ROWS))
    limited, stats = asyncio.run(answers(ROOM_FOR_TWO_ANSWERS))

    assert stats.num_preemptions > 0
    assert limited == unlimited
    assert stats.peak_memory_bytes <= TOLERANCE * 2_000_000


def test_most_important_row_keeps_its_memory() -> None:
    async def run() -> tuple[bool, int]:
        async with running_engine("endless", settings=ROOM_FOR_TWO_ANSWERS, own_process=True) as client:
            flex, normal = (
                submit(client, "endless", prompt, max_tokens=450, priority=priority)
                for prompt, priority in zip(PROMPTS[:2], (10, 0), strict=True)
            )
            await asyncio.gather(flex.next(), normal.next())
            less_important = asyncio.gather(finish(flex), finish(normal))
            await finish(submit(client, "endless", PROMPTS[2], max_tokens=450, priority=-10))
            is_last = not less_important.done()
            await less_important
            return is_last, (await client.stats()).num_preemptions

    is_last, num_preemptions = asyncio.run(run())
    assert is_last
    assert num_preemptions > 0


def test_row_alone_that_outgrows_the_limit_ends_with_the_reason() -> None:
    async def run() -> str:
        limited = EngineSettings(memory_limit_bytes=2_500_000)
        async with running_engine("endless", settings=limited, own_process=True) as client:
            with pytest.raises(ContextOverBudget) as ended:
                await finish(submit(client, "endless", [30] * 100, max_tokens=1_000_000))
            # The memory is free again.
            assert len((await finish(submit(client, "endless", [40] * 500, max_tokens=2))).token_ids) == 2
            stats = await client.stats()
            assert stats.peak_memory_bytes <= TOLERANCE * 2_500_000
        return str(ended.value)

    message = asyncio.run(run())
    assert "fills the memory limit of 2.50 MB beside 0.85 MB of weights" in message
    assert "--memory-limit" in message
