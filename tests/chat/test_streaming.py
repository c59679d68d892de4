"""Event batching, Markdown splitting and live metrics."""

import asyncio
from collections.abc import AsyncGenerator

import pytest
from hypothesis import given
from hypothesis import strategies as st
from markdown_it import MarkdownIt

from mlxctl.chat.event_batching import batch_events, merge_deltas
from mlxctl.chat.markdown_segments import Segmenter
from mlxctl.chat.throughput_meter import LiveMetrics, ThroughputMeter
from mlxctl.chat.turn_updates import RoundStarted
from mlxctl.chat.widgets.status_line import Status, status_text
from mlxctl.ir import Finished, PromptProgress, TextDelta, ThinkingDelta, Usage


async def source(*, num: int, pause: float, fails: bool = False) -> AsyncGenerator[list[int], None]:
    for number in range(num):
        yield [number]
        await asyncio.sleep(pause)
    if fails:
        raise ConnectionError


def test_fast_stream_becomes_few_complete_batches() -> None:
    async def gather() -> list[list[int]]:
        return [batch async for batch in batch_events(source(num=100, pause=0), seconds=0.5)]

    batches = asyncio.run(gather())
    assert [number for batch in batches for number in batch] == list(range(100))
    assert batches[0] == [0]
    assert len(batches) < 20


def test_error_is_raised_after_the_last_item() -> None:
    seen: list[int] = []

    async def gather() -> None:
        async for batch in batch_events(source(num=3, pause=0, fails=True), seconds=0.01):
            seen.extend(batch)

    with pytest.raises(ConnectionError):
        asyncio.run(gather())
    assert seen == [0, 1, 2]


def test_source_waits_for_a_slow_consumer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mlxctl.chat.event_batching._MAX_PENDING", 5)
    taken: list[int] = []

    async def counted() -> AsyncGenerator[list[int], None]:
        async for batch in source(num=1000, pause=0):
            taken.extend(batch)
            yield batch

    async def gather() -> list[int]:
        batches = batch_events(counted(), seconds=0.0)
        first = await anext(batches)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(taken) < 10
        return [*first, *[number async for batch in batches for number in batch]]

    assert asyncio.run(gather()) == list(range(1000))


def test_adjacent_deltas_are_merged() -> None:
    deltas = [
        ThinkingDelta(text="a"),
        ThinkingDelta(text="b"),
        TextDelta(text="c"),
        TextDelta(text="d"),
        ThinkingDelta(text="e"),
    ]
    assert merge_deltas(deltas) == [ThinkingDelta(text="ab"), TextDelta(text="cd"), ThinkingDelta(text="e")]


def segments_of(pieces: list[str]) -> list[str]:
    segmenter, segments = Segmenter(), [""]
    for text in pieces:
        for piece in segmenter.feed(text):
            if piece.starts_segment:
                segments.append("")
            segments[-1] += piece.text
    return segments


CODE = (
    "Before.\n\n```python\n"
    + "".join(f"line_{number} = {number}\n" for number in range(500))
    + "```\nAfter.\n"
)
PROSE = "".join(f"Paragraph {number} says *something*.\n\n" for number in range(300))


@pytest.mark.parametrize("text", [CODE, PROSE])
def test_long_markdown_is_split_into_bounded_segments(text: str) -> None:
    segments = segments_of([text])
    assert len(segments) > 3
    assert max(map(len, segments)) < 2000


@pytest.mark.parametrize("size", [1000, 100_000])
def test_a_line_of_any_length_is_split(size: int) -> None:
    line = "0123456789" * 10_000
    pieces = [line[place : place + size] for place in range(0, len(line), size)]
    segments = segments_of(pieces)
    assert "".join(segments) == line
    assert max(map(len, segments)) <= 20_000 + size % 20_000
    fenced = segments_of(["```\n", *pieces])
    assert all(text.startswith("```\n") for text in fenced)
    assert "".join(text.removeprefix("```\n").removesuffix("\n```\n") for text in fenced) == line


@given(st.lists(st.integers(1, 40), min_size=1, max_size=400))
def test_split_does_not_depend_on_chunk_sizes(sizes: list[int]) -> None:
    pieces, place = [], 0
    for size in sizes:
        pieces.append(CODE[place : place + size])
        place += size
    assert segments_of([*pieces, CODE[place:]]) == segments_of([CODE])


def test_split_markdown_has_the_same_content() -> None:
    def contents(texts: list[str]) -> str:
        tokens = [token for text in texts for token in MarkdownIt().parse(text)]
        return "".join(token.content for token in tokens if token.type in ("fence", "inline"))

    for text in (CODE, PROSE):
        assert contents(segments_of([text])) == contents([text])


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_throughput_is_that_of_the_latest_answer() -> None:
    clock = Clock()
    meter = ThroughputMeter(clock)
    meter.observe([RoundStarted()])
    clock.now = 0.5
    meter.observe([PromptProgress(num_processed=50, num_cached=0, num_prompt_tokens=100)])
    assert meter.metrics().prefill is not None
    for clock.now in (1.0, 1.1, 1.2, 1.3):
        meter.observe([TextDelta(text="a")])
    live = meter.metrics()
    assert (live.first_token_seconds, live.prefill, live.is_exact) == (1.0, None, False)
    assert live.tokens_per_second == pytest.approx(10.0)
    assert meter.statistics() is None
    meter.observe([Finished(reason="stop", usage=Usage(num_prompt_tokens=100, num_completion_tokens=7))])
    assert meter.metrics().tokens_per_second == pytest.approx(20.0)
    assert meter.metrics().is_exact
    statistics = meter.statistics()
    assert statistics is not None
    assert statistics.line() == "7 tokens  20 tok/s  first 1.00 s  cached 0 of 100"


def test_zero_usage_is_treated_as_unknown() -> None:
    meter = ThroughputMeter(Clock())
    meter.observe(
        [RoundStarted(), TextDelta(text="a"), Finished(reason="stop", usage=Usage(num_prompt_tokens=0))]
    )
    assert meter.metrics().usage is None


USAGE = Usage(num_prompt_tokens=1000, num_cached_tokens=850, num_completion_tokens=234)
FAST = LiveMetrics(first_token_seconds=0.12, tokens_per_second=143.4, is_exact=True, usage=USAGE)


@pytest.mark.parametrize(
    ("width", "line"),
    [
        (78, "Qwen3-8B-4bit  ready  context 1.2k/40.9k  143 tok/s  first 0.12 s  cached 85%"),
        (60, "Qwen3-8B-4bit  ready  context 1.2k/40.9k  143 tok/s"),
        (30, "Qwen3-8B-4bit  ready"),
    ],
)
def test_status_line_drops_what_does_not_fit(width: int, line: str) -> None:
    status = Status(
        model="Qwen3-8B-4bit",
        state="ready",
        metrics=FAST,
        num_context_tokens=1234,
        context_length=40_900,
    )
    assert status_text(status, width=width) == line
