"""Throughput: concurrent streams, and prefill of one long prompt."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from mlxctl.bench.client import Stream
from mlxctl.bench.figures import Chart, Figure, Sample
from mlxctl.bench.prompts import Prompts, user
from mlxctl.bench.target import BenchTarget

_QUESTION_TOKENS = 24


@dataclass(frozen=True, slots=True, kw_only=True)
class Throughput:
    """`streams` lists the numbers of concurrent answers, measured in order."""

    streams: tuple[int, ...] = (1, 4, 16)
    answer_tokens: int = 256
    prompt_tokens: int = 2048

    name: ClassVar[str] = "throughput"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """The prefill rate, and two rates per number of streams."""
        prompt = Figure(
            name="prompt_tokens_per_second",
            unit="tokens/s",
            better="higher",
            meaning="prefill of one long prompt",
        )
        return (prompt, *(figure for num in self.streams for figure in _figures(num)))

    @property
    def charts(self) -> tuple[Chart, ...]:
        """Decode rates by number of streams."""
        return (
            Chart(
                title="decoding",
                bars=tuple((_streams(num), f"decode_tokens_per_second_x{num}") for num in self.streams),
            ),
        )

    @property
    def settings(self) -> dict[str, Any]:
        return {
            "streams": list(self.streams),
            "answer_tokens": self.answer_tokens,
            "prompt_tokens": self.prompt_tokens,
        }

    async def measure(self, target: BenchTarget, prompts: Prompts, key: str) -> Sample:
        """Prefill one long prompt, then decode with each number of streams."""
        prompt = prompts.text(f"{key} prompt", target.fit(self.prompt_tokens, max_tokens=self.answer_tokens))
        read = await target.ask(user(prompt), max_tokens=1)
        sample = (
            {"prompt_tokens_per_second": read.num_prompt_tokens / read.ttft} if read.num_prompt_tokens else {}
        )
        for num in self.streams:
            questions = [user(prompts.text(f"{key} {num} {index}", _QUESTION_TOKENS)) for index in range(num)]
            streams = await asyncio.gather(
                *(target.ask(question, max_tokens=self.answer_tokens) for question in questions)
            )
            sample |= (rates := _rates(num, streams))
            if len(rates) == 1:
                target.note(f"{_streams(num)} never decoded all at once; use a larger --answer-tokens")
        return sample


def decode_rate(streams: Sequence[Stream]) -> float | None:
    """Return tokens/s while all streams decode; None if never."""
    if not all(stream.events for stream in streams):
        return None
    begin = max(stream.events[0] for stream in streams)
    end = min(stream.events[-1] for stream in streams)
    if end <= begin:
        return None
    tokens = sum(
        sum(begin < event <= end for event in stream.events) * stream.num_counted / len(stream.events)
        for stream in streams
    )
    return tokens / (end - begin)


def _rates(num: int, streams: Sequence[Stream]) -> Sample:
    seconds = max(stream.ended for stream in streams) - min(stream.sent for stream in streams)
    sample = {f"tokens_per_second_x{num}": sum(stream.num_counted for stream in streams) / seconds}
    rate = decode_rate(streams)
    return sample if rate is None else sample | {f"decode_tokens_per_second_x{num}": rate}


def _figures(num: int) -> tuple[Figure, Figure]:
    return (
        Figure(
            name=f"decode_tokens_per_second_x{num}",
            unit="tokens/s",
            better="higher",
            meaning=f"{_streams(num)}, while all decode",
        ),
        Figure(
            name=f"tokens_per_second_x{num}",
            unit="tokens/s",
            better="higher",
            meaning=f"{_streams(num)}, from question to end",
        ),
    )


def _streams(num: int) -> str:
    return f"{num} stream{'s' * (num > 1)}"
