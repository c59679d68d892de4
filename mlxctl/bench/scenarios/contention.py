"""Interference: short requests and a decoding stream during a long prefill."""

import asyncio
import statistics
import time
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.figures import Chart, Figure, Sample, percentile
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.scenarios.background import DecodingStream, LongPrompts
from mlxctl.bench.target import BenchTarget

_QUESTION_TOKENS = 16
_STREAM_TOKENS = 2048
# Lets the prefill begin before other requests are sent; ends early when the prompt is prefilled sooner.
_HEAD_START_SECONDS = 0.05


@dataclass(frozen=True, slots=True, kw_only=True)
class Contention:
    """`num_requests` short requests in each situation.

    The undisturbed stream is observed for `watch_seconds`. `num_prompts` long prompts arrive at once;
    short requests pause for `pause_seconds` in between.
    """

    num_requests: int = 5
    num_prompts: int = 1
    pause_seconds: float = 0.0
    prompt_tokens: int = 8192
    answer_tokens: int = 6
    watch_seconds: float = 1.0

    name: ClassVar[str] = "contention"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(name="ttft_idle", unit="s", better="lower", meaning="a short request alone"),
        Figure(name="ttft_beside_stream", unit="s", better="lower", meaning="beside a decoding stream"),
        Figure(name="ttft_beside_prompt", unit="s", better="lower", meaning="beside a long prefill"),
        Figure(name="ttft_beside_prompt_max", unit="s", better="lower", meaning="the slowest of them"),
        Figure(name="ttft_beside_both", unit="s", better="lower", meaning="beside both"),
        Figure(name="ttft_beside_both_max", unit="s", better="lower", meaning="the slowest of them"),
        Figure(name="gap_idle", unit="s", better="lower", meaning="between tokens of the stream alone, p50"),
        Figure(name="gap_beside_prompt_p99", unit="s", better="lower", meaning="during a long prefill, p99"),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first token of a short request",
            bars=(
                ("alone", "ttft_idle"),
                ("beside a stream", "ttft_beside_stream"),
                ("beside a prompt", "ttft_beside_prompt"),
                ("beside both", "ttft_beside_both"),
            ),
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Measure alone, beside a stream, beside both, and beside a prompt."""
        sample = {
            "ttft_idle": statistics.median(
                [await self._short(target, prompts, f"{key} idle {n}") for n in self._numbers]
            )
        }
        stream = DecodingStream(
            target, prompts, f"{key} stream", answer_tokens=target.fit(_STREAM_TOKENS, max_tokens=0)
        )
        try:
            await stream.wait_started()
            beside = [await self._short(target, prompts, f"{key} stream {n}") for n in self._numbers]
            sample["ttft_beside_stream"] = statistics.median(beside)
            watched = time.perf_counter()
            await asyncio.sleep(self.watch_seconds)
            if gaps := stream.gaps_since(watched):
                sample["gap_idle"] = statistics.median(gaps)
            sample |= await self._beside_prompt(target, prompts, f"{key} both", "ttft_beside_both", stream)
        finally:
            await stream.stop()
        return sample | await self._beside_prompt(target, prompts, f"{key} prompt", "ttft_beside_prompt")

    @property
    def _numbers(self) -> range:
        return range(self.num_requests)

    async def _short(self, target: BenchTarget, prompts: Prompts, key: str) -> float:
        return (
            await target.ask(user(prompts.text(key, _QUESTION_TOKENS)), max_tokens=self.answer_tokens)
        ).ttft

    async def _beside_prompt(
        self,
        target: BenchTarget,
        prompts: Prompts,
        key: str,
        figure: str,
        stream: DecodingStream | None = None,
    ) -> Sample:
        """Observe the stream, send short requests, until all long prompts are prefilled."""
        num_tokens = target.fit(self.prompt_tokens, max_tokens=self.answer_tokens)
        texts = [prompts.text(f"{key} long {number}", num_tokens) for number in range(self.num_prompts)]
        long, started = LongPrompts(target, texts), time.perf_counter()
        seconds: list[float] = []
        sample: Sample = {}
        try:
            await long.wait_prefilled(within_seconds=_HEAD_START_SECONDS)
            if stream is not None and not long.are_prefilled:
                await long.wait_prefilled(within_seconds=self.watch_seconds)
                if gaps := stream.gaps_since(started):
                    sample["gap_beside_prompt_p99"] = percentile(gaps, 0.99)
            while len(seconds) < self.num_requests and not long.are_prefilled:
                seconds.append(await self._short(target, prompts, f"{key} {len(seconds)}"))
                # Spread over the prefill: those that wait in the meantime must not come first.
                await long.wait_prefilled(within_seconds=self.pause_seconds)
        finally:
            await long.stop()
        if not seconds:
            target.note("the prefill ended before other requests were sent; use a larger --prompt-tokens")
            return sample
        return sample | {figure: statistics.median(seconds), f"{figure}_max": max(seconds)}
