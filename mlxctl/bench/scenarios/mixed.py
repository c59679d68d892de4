"""Mixed load: concurrent clients with short and long requests."""

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.figures import Chart, Figure, Sample, percentile, percentile_figures, percentiles
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget

MIN_PROMPT_TOKENS = 16
MIN_ANSWER_TOKENS = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Mixed:
    """`num_requests` per round by `num_clients` concurrent clients.

    Lengths are log-uniform.
    """

    num_requests: int = 32
    num_clients: int = 8
    prompt_tokens: int = 2048
    answer_tokens: int = 256

    name: ClassVar[str] = "mixed"
    figures: ClassVar[tuple[Figure, ...]] = (
        Figure(
            name="tokens_per_second",
            unit="tokens/s",
            better="higher",
            meaning="all answers, from first question to last end",
        ),
        Figure(
            name="requests_per_second",
            unit="requests/s",
            better="higher",
            meaning="requests that were finished",
        ),
        *percentile_figures("ttft", "time to first token"),
        Figure(
            name="ttft_short_p50",
            unit="s",
            better="lower",
            meaning="the third with the shortest prompts, p50",
        ),
        Figure(
            name="ttft_long_p50", unit="s", better="lower", meaning="the third with the longest prompts, p50"
        ),
        *percentile_figures("request", "whole request"),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first token",
            bars=(
                ("short prompts p50", "ttft_short_p50"),
                ("all p50", "ttft_p50"),
                ("long prompts p50", "ttft_long_p50"),
            ),
        ),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    def lengths(self, seed: int) -> list[tuple[int, int]]:
        """Return prompt and answer lengths in tokens, equal in every round."""
        source = random.Random(f"{seed} lengths")  # noqa: S311
        return [
            (
                draw_length(source, MIN_PROMPT_TOKENS, self.prompt_tokens),
                draw_length(source, MIN_ANSWER_TOKENS, self.answer_tokens),
            )
            for _ in range(self.num_requests)
        ]

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Let the clients send all requests."""
        waiting = list(enumerate(self.lengths(prompts.seed)))[::-1]
        answered: list[tuple[int, Stream]] = []

        async def ask_on() -> None:
            while waiting:
                number, (num_prompt, num_answer) = waiting.pop()
                text = prompts.text(f"{key} {number}", target.fit(num_prompt, max_tokens=num_answer))
                answered.append((num_prompt, await target.ask(user(text), max_tokens=num_answer)))

        await asyncio.gather(*(ask_on() for _ in range(min(self.num_clients, self.num_requests))))
        return _sample(answered)


def _sample(answered: Sequence[tuple[int, Stream]]) -> Sample:
    streams = [stream for _, stream in answered]
    seconds = max(stream.ended for stream in streams) - min(stream.sent for stream in streams)
    by_length = [stream.ttft for _, stream in sorted(answered, key=lambda pair: pair[0])]
    third = max(1, len(by_length) // 3)
    return {
        "tokens_per_second": sum(stream.num_counted for stream in streams) / seconds,
        "requests_per_second": len(streams) / seconds,
        **percentiles("ttft", by_length),
        "ttft_short_p50": percentile(by_length[:third], 0.5),
        "ttft_long_p50": percentile(by_length[-third:], 0.5),
        **percentiles("request", [stream.seconds for stream in streams]),
    }


def draw_length(source: random.Random, least: int, most: int) -> int:
    """Draw a log-uniform length."""
    return most if most <= least else round(least * (most / least) ** source.random())
