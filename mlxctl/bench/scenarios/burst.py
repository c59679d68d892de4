"""Concurrent new prompts, on a fresh server and after one stream alone.

Exposes servers that adapt to earlier requests or answer from a cache.
"""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.endpoint import ChatEndpoint
from mlxctl.bench.figures import Chart, Figure, Sample, percentile
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget


def _figures(prefix: str, when: str) -> tuple[Figure, ...]:
    rate = "all answers, from the first request to the last end"
    return (
        Figure(
            name=f"{prefix}tokens_per_second", unit="tokens/s", better="higher", meaning=f"{rate}, {when}"
        ),
        Figure(
            name=f"{prefix}ttft_p50", unit="s", better="lower", meaning=f"time to first token, p50, {when}"
        ),
        Figure(
            name=f"{prefix}ttft_p95", unit="s", better="lower", meaning=f"time to first token, p95, {when}"
        ),
        Figure(
            name=f"{prefix}ttft_slowest", unit="s", better="lower", meaning=f"the slowest first token, {when}"
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class Burst:
    """Sends `num_requests` requests at the same moment.

    With `restarts`, a server that the run started is restarted before the first burst.
    """

    num_requests: int = 16
    prompt_tokens: int = 100
    answer_tokens: int = 256
    restarts: bool = True

    name: ClassVar[str] = "burst"
    figures: ClassVar[tuple[Figure, ...]] = (
        *_figures("", "after one stream alone"),
        *_figures("fresh_", "on a fresh server"),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first token in a burst",
            bars=(
                ("p50", "ttft_p50"),
                ("slowest", "ttft_slowest"),
                ("fresh, p50", "fresh_ttft_p50"),
                ("fresh, slowest", "fresh_ttft_slowest"),
            ),
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Measure a fresh burst, one stream, then another burst."""
        sample: Sample = {}
        if self.restarts and await _restart(target):
            sample |= _sample("fresh_", await self._burst(target, prompts, f"{key} fresh"))
        await self._ask(target, prompts, f"{key} alone")
        return sample | _sample("", await self._burst(target, prompts, f"{key} burst"))

    async def _burst(self, target: BenchTarget, prompts: Prompts, key: str) -> Sequence[Stream]:
        return await asyncio.gather(
            *(self._ask(target, prompts, f"{key} {number}") for number in range(self.num_requests))
        )

    async def _ask(self, target: BenchTarget, prompts: Prompts, key: str) -> Stream:
        text = prompts.text(key, target.fit(self.prompt_tokens, max_tokens=self.answer_tokens))
        return await target.ask(user(text), max_tokens=self.answer_tokens)


async def _restart(target: BenchTarget) -> bool:
    if target.restarter is None:
        target.note("no fresh server: only a server that the benchmark started can be restarted")
        return False
    target.endpoint = ChatEndpoint.of(await target.restarter.restart())
    return True


def _sample(prefix: str, streams: Sequence[Stream]) -> Sample:
    seconds = max(stream.ended for stream in streams) - min(stream.sent for stream in streams)
    ttfts = [stream.ttft for stream in streams]
    return {
        f"{prefix}tokens_per_second": sum(stream.num_counted for stream in streams) / seconds,
        f"{prefix}ttft_p50": percentile(ttfts, 0.5),
        f"{prefix}ttft_p95": percentile(ttfts, 0.95),
        f"{prefix}ttft_slowest": max(ttfts),
    }
