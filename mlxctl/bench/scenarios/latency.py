"""Latency: sequential requests, time to first token and between tokens."""

from dataclasses import asdict, dataclass
from typing import Any, ClassVar

from mlxctl.bench.figures import Chart, Figure, Sample, percentile_figures, percentiles
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget

_MIN_FOR_P99 = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Latency:
    """`num_requests` per round, one at a time, each with a new prompt."""

    num_requests: int = 20
    prompt_tokens: int = 128
    answer_tokens: int = 64

    name: ClassVar[str] = "latency"
    figures: ClassVar[tuple[Figure, ...]] = (
        *percentile_figures("ttft", "time to first token"),
        *percentile_figures("itl", "time between arrivals of tokens"),
        *percentile_figures("request", "whole request"),
    )
    charts: ClassVar[tuple[Chart, ...]] = (
        Chart(
            title="time to first token", bars=tuple((f"p{rank}", f"ttft_p{rank}") for rank in (50, 95, 99))
        ),
        Chart(title="time between tokens", bars=tuple((f"p{rank}", f"itl_p{rank}") for rank in (50, 95, 99))),
    )

    @property
    def settings(self) -> dict[str, Any]:
        return asdict(self)

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Return percentiles over the requests of the round."""
        if self.num_requests < _MIN_FOR_P99:
            target.note(
                f"with {self.num_requests} request{'s' * (self.num_requests > 1)} a round,"
                " p99 is the slowest of them"
            )
        num_tokens = target.fit(self.prompt_tokens, max_tokens=self.answer_tokens)
        streams = [
            await target.ask(user(prompts.text(f"{key} {number}", num_tokens)), max_tokens=self.answer_tokens)
            for number in range(self.num_requests)
        ]
        gaps = [gap for stream in streams for gap in stream.gaps]
        return (
            percentiles("ttft", [stream.ttft for stream in streams])
            | percentiles("itl", gaps)
            | percentiles("request", [stream.seconds for stream in streams])
        )
