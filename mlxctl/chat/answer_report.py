"""Statistics of one answer as a line of text or JSON. Pure."""

import time
from typing import Any, Literal

import msgspec

from mlxctl.chat.throughput_meter import ThroughputMeter
from mlxctl.chat.turn_updates import Update
from mlxctl.ir import Collector, Finished, StreamEvent

ReportFormat = Literal["text", "json"]


class AnswerReport:
    """Collects the updates of one turn and summarizes them.

    Times are in seconds since its creation. `meter` measures the turn.
    """

    def __init__(self, model: str, meter: ThroughputMeter) -> None:
        self._model = model
        self._meter = meter
        self._collector = Collector()
        self._finished: Finished | None = None
        self._started = time.monotonic()

    def add(self, update: Update) -> None:
        """Take an update that was shown."""
        if isinstance(update, StreamEvent):
            self._collector.add(update)
        if isinstance(update, Finished):
            self._finished = update

    def line(self) -> str:
        """Return the token counts and speeds on one line."""
        metrics = self._meter.metrics()
        parts = []
        if (usage := metrics.usage) is not None:
            parts.append(f"{usage.num_prompt_tokens:,} prompt tokens ({usage.num_cached_tokens:,} cached)")
            parts.append(f"{usage.num_completion_tokens:,} completion tokens")
        if metrics.first_token_seconds is not None:
            parts.append(f"first token {metrics.first_token_seconds:.2f} s")
        if metrics.tokens_per_second is not None:
            parts.append(f"{metrics.tokens_per_second:.1f} tokens/s")
        return ", ".join([*parts, f"total {time.monotonic() - self._started:.2f} s"])

    def json(self) -> str:
        """Return the answer with its statistics as one JSON object.

        Unknown values are null.
        """
        metrics = self._meter.metrics()
        usage = metrics.usage
        answer = self._collector.result().message if self._finished else None
        body: dict[str, Any] = {
            "model": self._model,
            "content": answer.text if answer else "",
            "thinking": (answer.thinking or None) if answer else None,
            "tool_calls": [
                {"name": call.name, "arguments": call.arguments}
                for call in (answer.tool_calls if answer else ())
            ],
            "finish_reason": self._finished.reason if self._finished else None,
            "usage": usage
            and {
                "prompt_tokens": usage.num_prompt_tokens,
                "cached_tokens": usage.num_cached_tokens,
                "completion_tokens": usage.num_completion_tokens,
                "thinking_tokens": usage.num_thinking_tokens,
            },
            "first_token_seconds": metrics.first_token_seconds,
            "tokens_per_second": metrics.tokens_per_second,
            "total_seconds": time.monotonic() - self._started,
        }
        return msgspec.json.encode(body).decode()
