"""Throughput beside raw mlx_lm; costs of sampling values and structured output."""

import asyncio
import random
import secrets
import statistics
from collections.abc import Iterator
from dataclasses import replace

from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.bench.prompts import Prompts
from mlxctl.bench.scenarios import Throughput
from mlxctl.bench.target import BenchTarget
from tests.benchmarks.load import chat_body, run_stream
from tests.benchmarks.raw import Raw
from tests.benchmarks.rounds import Finding, Ratio
from tests.benchmarks.servers import Server

_SHORT = "how are you today?"
_SHORT_TOKENS = 8


def throughput(server: Server, raw: Raw, *, rounds: int, num_tokens: int) -> Iterator[Finding]:
    """Measure 1, 8 and 16 streams beside raw mlx_lm."""
    scenario = Throughput(streams=(1, 8, 16), answer_tokens=num_tokens, prompt_tokens=64)
    target = _target(server)
    prompts = _calibrated(target)
    rates: dict[int, tuple[list[float], list[float]]] = {num: ([], []) for num in scenario.streams}
    for number in range(rounds):
        sample = asyncio.run(scenario.measure(target, prompts, f"round {number}"))
        for num, (ours, others) in rates.items():
            rate = sample.get(f"decode_tokens_per_second_x{num}")
            assert rate is not None, f"{num} answers never decoded at once; use a larger --tokens"
            ours.append(rate)
            others.append(raw.single(num_tokens) if num == 1 else raw.batch(num, num_tokens))
    for num, label, name, bar in (
        (1, "1 stream", "stream_generate", 0.98),
        (8, "8 streams", "BatchGenerator", 0.9),
        (16, "16 streams", "BatchGenerator", 0.9),
    ):
        ours, others = rates[num]
        yield Finding(f"{label} / {name}", Ratio.of(ours, others), bar, True, _rates(ours, others))


def _target(server: Server) -> BenchTarget:
    return BenchTarget("A", server.name, ChatEndpoint.of(f"http://127.0.0.1:{server.port}"), "default_model")


def _calibrated(target: BenchTarget) -> Prompts:
    prompts = Prompts(seed=1, nonce=secrets.token_hex(6))
    return replace(prompts, tokens_per_word=asyncio.run(target.calibrate(prompts)))


def new_sampling_values(server: Server, *, rounds: int) -> Iterator[Finding]:
    """Measure requests with new sampling values, relative to repeated ones."""
    generator = random.Random(1)
    known = {"temperature": 0.7, "top_p": 0.9, "min_p": 0.05}
    asyncio.run(run_stream(server.port, chat_body(_SHORT, max_tokens=_SHORT_TOKENS, **known)))
    fresh_seconds, known_seconds = [], []
    for _ in range(rounds):
        fresh = {name: round(generator.uniform(0.5, 0.99), 6) for name in ("temperature", "top_p")}
        fresh["min_p"] = round(generator.uniform(0.01, 0.1), 6)
        for values, seconds in ((known, known_seconds), (fresh, fresh_seconds)):
            stream = asyncio.run(
                run_stream(server.port, chat_body(_SHORT, max_tokens=_SHORT_TOKENS, **values))
            )
            seconds.append(stream.events[-1] - stream.sent)
    ratio = Ratio.of(fresh_seconds, known_seconds)
    detail = _milliseconds(fresh_seconds, known_seconds)
    yield Finding(f"{server.name}: new sampling values / known values", ratio, 1.15, False, detail)


def structured_output(server: Server, *, rounds: int, num_tokens: int) -> Iterator[Finding]:
    """Measure the cost of structured output, also for concurrent streams."""
    free = chat_body(_SHORT, max_tokens=num_tokens)
    constrained_body = free | {"guided_regex": "[a-z ]*"}
    asyncio.run(run_stream(server.port, constrained_body))
    constrained, free_alone, beside_constrained, beside_free = [], [], [], []
    for _ in range(rounds):
        free_alone.append(asyncio.run(_rate_beside(server.port, free, None, num_tokens)))
        constrained.append(asyncio.run(_rate_beside(server.port, constrained_body, None, num_tokens)))
        beside_free.append(asyncio.run(_rate_beside(server.port, free, free, num_tokens)))
        beside_constrained.append(asyncio.run(_rate_beside(server.port, free, constrained_body, num_tokens)))
    yield Finding(
        "1 constrained stream / free",
        Ratio.of(constrained, free_alone),
        0.9,
        True,
        _rates(constrained, free_alone),
    )
    name = "7 free streams beside a constrained one / beside a free one"
    yield Finding(
        name, Ratio.of(beside_constrained, beside_free), 0.9, True, _rates(beside_constrained, beside_free)
    )


async def _rate_beside(
    port: int, body: dict[str, object], other: dict[str, object] | None, num_tokens: int
) -> float:
    """Return the mean rate of one stream, or of seven beside another.

    Tokens without text count, too.
    """
    bodies = [body] if other is None else [*[body] * 7, other]
    streams = await asyncio.gather(*(run_stream(port, each) for each in bodies))
    return statistics.fmean(num_tokens / (stream.events[-1] - stream.events[0]) for stream in streams[:7])


def _rates(ours: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(ours):.0f} and {statistics.median(theirs):.0f} tokens/s"


def _milliseconds(ours: list[float], theirs: list[float]) -> str:
    return f"{statistics.median(ours) * 1e3:.1f} and {statistics.median(theirs) * 1e3:.1f} ms"
