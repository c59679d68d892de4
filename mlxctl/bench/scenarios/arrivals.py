"""Open-loop load: requests arrive as a Poisson process at a given rate."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.figures import Chart, Figure, Sample, percentile_figures, percentiles
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.scenarios.mixed import MIN_ANSWER_TOKENS, MIN_PROMPT_TOKENS, draw_length
from mlxctl.bench.target import BenchTarget


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduledRequest:
    """One request: seconds after the first, and token lengths."""

    after: float
    prompt_tokens: int
    answer_tokens: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Arrivals:
    """`num_requests` at an average of `rate` requests per second.

    Lengths are log-uniform. A request counts as good when its first token arrives within `ttft_ms` and the
    mean time of further tokens is at most `token_ms`.
    """

    rate: float = 2.0
    num_requests: int = 32
    prompt_tokens: int = 512
    answer_tokens: int = 128
    ttft_ms: float = 1000.0
    token_ms: float = 100.0

    name: ClassVar[str] = "arrivals"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(name="goodput", unit="share", better="higher", meaning="requests within both bounds"),
        Figure(
            name="tokens_per_second",
            unit="tokens/s",
            better="higher",
            meaning="all answers, from first arrival to last end",
        ),
        *percentile_figures("ttft", "time to first token"),
        *percentile_figures("token", "mean time of a further token, by request"),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first token", bars=(("p50", "ttft_p50"), ("p95", "ttft_p95"), ("p99", "ttft_p99"))
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def schedule(self, seed: int) -> list[ScheduledRequest]:
        """Return the schedule, equal in every round and for every server."""
        source, after, arrivals = random.Random(f"{seed} arrivals"), 0.0, []  # noqa: S311
        for _ in range(self.num_requests):
            prompt = draw_length(source, MIN_PROMPT_TOKENS, self.prompt_tokens)
            answer = draw_length(source, MIN_ANSWER_TOKENS, self.answer_tokens)
            arrivals.append(ScheduledRequest(after=after, prompt_tokens=prompt, answer_tokens=answer))
            after += source.expovariate(self.rate)
        return arrivals

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Send every request at its time, without waiting for earlier ones."""

        async def send(number: int, arrival: ScheduledRequest) -> Stream:
            num_tokens = target.fit(arrival.prompt_tokens, max_tokens=arrival.answer_tokens)
            text = prompts.text(f"{key} {number}", num_tokens)
            await asyncio.sleep(arrival.after)
            return await target.ask(user(text), max_tokens=arrival.answer_tokens)

        return self._sample(
            await asyncio.gather(*(send(*each) for each in enumerate(self.schedule(prompts.seed))))
        )

    def _sample(self, streams: Sequence[Stream]) -> Sample:
        seconds = max(stream.ended for stream in streams) - min(stream.sent for stream in streams)
        rates = [(stream, stream.tokens_per_second) for stream in streams]
        num_good = sum(
            stream.ttft <= self.ttft_ms / 1e3 and rate * self.token_ms >= 1e3 for stream, rate in rates
        )
        return {
            "goodput": num_good / len(streams),
            "tokens_per_second": sum(stream.num_counted for stream in streams) / seconds,
            **percentiles("ttft", [stream.ttft for stream in streams]),
            **percentiles("token", [1 / rate for _, rate in rates if rate]),
        }
