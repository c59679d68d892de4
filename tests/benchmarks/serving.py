"""The measurements: throughput beside the yardsticks, latency beside the server's own idle value."""

import asyncio
import itertools
import random
import statistics
import time
from collections.abc import Iterator

from tests.benchmarks.load import Stream, chat_body, run_many, run_stream
from tests.benchmarks.raw import Raw
from tests.benchmarks.rounds import Finding, Ratio, percentile
from tests.benchmarks.servers import Server

_SHORT = "how are you today?"
_SHORT_TOKENS = 8


def throughput(ours: Server, theirs: Server, raw: Raw, *, rounds: int, num_tokens: int) -> Iterator[Finding]:
    """One stream, then 8 and 16, each beside raw mlx_lm and mlx_lm.server."""
    body = chat_body(_SHORT, max_tokens=num_tokens)
    mine, peer, yard = [], [], []
    for _ in range(rounds):
        mine.append(asyncio.run(run_stream(ours.port, body)).tokens_per_second)
        yard.append(raw.single(num_tokens))
        peer.append(asyncio.run(run_stream(theirs.port, body)).tokens_per_second)
    yield Finding("1 stream / stream_generate", Ratio.of(mine, yard), 0.98, True, _rates(mine, yard))
    yield Finding("1 stream / mlx_lm.server", Ratio.of(mine, peer), 1.0, True, _rates(mine, peer))
    for num in (8, 16):
        mine, peer, yard = [], [], []
        for _ in range(rounds):
            mine.append(asyncio.run(run_many(ours.port, num, max_tokens=num_tokens)))
            yard.append(raw.batch(num, num_tokens))
            peer.append(asyncio.run(run_many(theirs.port, num, max_tokens=num_tokens)))
        yield Finding(f"{num} streams / BatchGenerator", Ratio.of(mine, yard), 0.9, True, _rates(mine, yard))
        yield Finding(f"{num} streams / mlx_lm.server", Ratio.of(mine, peer), 1.8, True, _rates(mine, peer))


def latency(server: Server, *, rounds: int) -> Iterator[Finding]:
    """A short request, idle, beside a decoding stream, and beside a long prompt; and what that does to the decoding stream."""
    measured = [asyncio.run(_contention(server.port)) for _ in range(rounds)]
    idle = [round_.idle for round_ in measured]
    for name, values, bar in (
        ("first token beside a decoding stream / idle", [round_.beside_decode for round_ in measured], 3.0),
        ("first token beside a long prompt / idle", [round_.beside_prompt for round_ in measured], 5.0),
        ("first token beside a long prompt and a decoding stream / idle", [round_.beside_both for round_ in measured], 5.0),
    ):
        yield Finding(f"{server.name}: {name}", Ratio.of(values, idle), bar, False, _milliseconds(values, idle))
    gaps = [round_.contended_gap for round_ in measured]
    idle_gaps = [round_.idle_gap for round_ in measured]
    yield Finding(
        f"{server.name}: p99 gap while a long prompt is read / idle gap",
        Ratio.of(gaps, idle_gaps),
        4.0,
        False,
        _milliseconds(gaps, idle_gaps),
    )


def new_values(server: Server, *, rounds: int) -> Iterator[Finding]:
    """A request with sampling values never seen before, beside one with known values."""
    generator = random.Random(1)
    known = {"temperature": 0.7, "top_p": 0.9, "min_p": 0.05}
    asyncio.run(run_stream(server.port, chat_body(_SHORT, max_tokens=_SHORT_TOKENS, **known)))
    fresh_seconds, known_seconds = [], []
    for _ in range(rounds):
        fresh = {name: round(generator.uniform(0.5, 0.99), 6) for name in ("temperature", "top_p")}
        fresh["min_p"] = round(generator.uniform(0.01, 0.1), 6)
        for values, seconds in ((known, known_seconds), (fresh, fresh_seconds)):
            stream = asyncio.run(run_stream(server.port, chat_body(_SHORT, max_tokens=_SHORT_TOKENS, **values)))
            seconds.append(stream.events[-1] - stream.sent)
    ratio = Ratio.of(fresh_seconds, known_seconds)
    detail = _milliseconds(fresh_seconds, known_seconds)
    yield Finding(f"{server.name}: new sampling values / known values", ratio, 1.15, False, detail)


class _Contention:
    """One round of latencies, in seconds."""

    idle: float
    beside_decode: float
    beside_prompt: float
    beside_both: float
    idle_gap: float
    contended_gap: float


async def _contention(port: int) -> _Contention:
    found = _Contention()
    found.idle = statistics.median([await _short(port) for _ in range(5)])
    decoding = await _Background.start(port, chat_body("keep talking", max_tokens=20_000))
    await asyncio.sleep(0.5)
    found.beside_decode = statistics.median([await _short(port) for _ in range(5)])
    mark = len(decoding.times)
    await asyncio.sleep(1.0)
    found.idle_gap = statistics.median(_gaps(decoding.times[mark:]))
    prompt = await _start_long_prompt(port)
    mark = len(decoding.times)
    await asyncio.sleep(3.0)
    found.contended_gap = percentile(_gaps([*decoding.times[mark:], time.perf_counter()]), 0.99)
    found.beside_both = await _shorts_beside(port, prompt)
    await decoding.stop()
    await prompt.stop()
    await asyncio.sleep(0.2)
    prompt = await _start_long_prompt(port)
    found.beside_prompt = await _shorts_beside(port, prompt)
    await prompt.stop()
    await asyncio.sleep(0.2)
    return found


async def _start_long_prompt(port: int) -> "_Background":
    prompt = await _Background.start(port, chat_body(_long_text(), max_tokens=4), wait=False)
    await asyncio.sleep(0.3)
    assert not prompt.times, "the long prompt is too short to measure beside"
    return prompt


async def _shorts_beside(port: int, prompt: "_Background") -> float:
    """Median time to the first token of short requests that begin while the prompt is being read."""
    seconds: list[float] = []
    while len(seconds) < 3 and not prompt.times:
        seconds.append(await _short(port))
    return statistics.median(seconds)


class _Background:
    """A stream that goes on while others are measured; stopping it is leaving."""

    def __init__(self, task: "asyncio.Task[Stream]", times: list[float]) -> None:
        self._task = task
        self.times = times

    @classmethod
    async def start(cls, port: int, body: dict[str, object], *, wait: bool = True) -> "_Background":
        first = asyncio.Event()
        stream = Stream(sent=0.0)
        task = asyncio.create_task(run_stream(port, body, on_first=first, into=stream))
        if wait:
            await first.wait()
        return cls(task, stream.events)

    async def stop(self) -> None:
        self._task.cancel()
        await asyncio.gather(self._task, return_exceptions=True)


async def _short(port: int) -> float:
    # Random tokens may be pieces of a character: some more, so that there is text.
    # Never the same twice, so that no server answers from a cache.
    text = f"{random.randrange(10**6)} {_SHORT}"
    return (await run_stream(port, chat_body(text, max_tokens=6))).first_event_seconds


def _long_text() -> str:
    # Never the same twice, so that no server answers from a cache. Its length in tokens is checked by the caller of the benchmark.
    generator = random.Random()
    return " ".join(f"{generator.randrange(10**6)}" for _ in range(2000))


def _gaps(times: list[float]) -> list[float]:
    return [after - before for before, after in itertools.pairwise(times)]


def _rates(ours: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(ours):.0f} and {statistics.median(theirs):.0f} tokens/s"


def _milliseconds(ours: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(ours) * 1e3:.1f} and {statistics.median(theirs) * 1e3:.1f} ms"
