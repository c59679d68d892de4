"""Speed of an answer, measured from the arrival of its events. Pure."""

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mlxctl.chat.answer_statistics import AnswerStatistics
from mlxctl.chat.turn_updates import RoundStarted, Update
from mlxctl.ir import Finished, PromptProgress, TextDelta, ThinkingDelta, ToolArgumentsDelta, Usage

_WINDOW_SECONDS = 2.0


@dataclass(frozen=True, slots=True, kw_only=True)
class LiveMetrics:
    """Numbers of the status line; unknown values are None.

    While streaming, `tokens_per_second` counts deltas; at the end it counts tokens and `is_exact` is true.
    `silent_seconds` is the time since the last event of an unfinished answer.
    """

    prefill: PromptProgress | None = None
    first_token_seconds: float | None = None
    tokens_per_second: float | None = None
    is_exact: bool = False
    usage: Usage | None = None
    silent_seconds: float | None = None


@dataclass(slots=True)
class _AnswerTimes:
    started: float
    last: float
    first: float | None = None
    ended: float | None = None
    recent: deque[float] = field(default_factory=deque)
    prefill: PromptProgress | None = None
    usage: Usage | None = None


class ThroughputMeter:
    """Measures the updates of one turn, answer by answer.

    The metrics are those of the latest answer.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        now = clock()
        self._answer = _AnswerTimes(now, now)

    def observe(self, updates: list[Update]) -> None:
        """Add updates that have just arrived."""
        now = self._clock()
        self._answer.last = now
        for update in updates:
            match update:
                case RoundStarted():
                    self._answer = _AnswerTimes(now, now)
                case PromptProgress():
                    self._answer.prefill = update
                case TextDelta() | ThinkingDelta() | ToolArgumentsDelta():
                    self._delta(now)
                case Finished():
                    self._answer.ended = now
                    # Servers without token counts report zeros.
                    self._answer.usage = update.usage if update.usage.num_prompt_tokens else None
                case _:
                    pass

    def metrics(self) -> LiveMetrics:
        """Return the current metrics."""
        answer = self._answer
        return LiveMetrics(
            prefill=answer.prefill if answer.first is None else None,
            first_token_seconds=None if answer.first is None else answer.first - answer.started,
            tokens_per_second=_rate(answer),
            is_exact=answer.usage is not None,
            usage=answer.usage,
            silent_seconds=None if answer.ended is not None else self._clock() - answer.last,
        )

    def statistics(self) -> AnswerStatistics | None:
        """Return the statistics of the latest answer; None unless it is complete."""
        if self._answer.ended is None:
            return None
        metrics = self.metrics()
        counts = {}
        if (usage := metrics.usage) is not None:
            counts = {
                "prompt_tokens": usage.num_prompt_tokens,
                "cached_tokens": usage.num_cached_tokens,
                "completion_tokens": usage.num_completion_tokens,
                "thinking_tokens": usage.num_thinking_tokens,
            }
        return AnswerStatistics(
            **counts,
            first_token_seconds=metrics.first_token_seconds,
            tokens_per_second=metrics.tokens_per_second,
        )

    def _delta(self, now: float) -> None:
        if self._answer.first is None:
            self._answer.first = now
        recent = self._answer.recent
        recent.append(now)
        while now - recent[0] > _WINDOW_SECONDS:
            recent.popleft()


def _rate(answer: _AnswerTimes) -> float | None:
    if answer.usage is not None and answer.first is not None and answer.ended is not None:
        # The first token is part of the prefill.
        num_tokens, spent = answer.usage.num_completion_tokens - 1, answer.ended - answer.first
    elif answer.recent:
        num_tokens, spent = len(answer.recent) - 1, answer.recent[-1] - answer.recent[0]
    else:
        return None
    return num_tokens / spent if num_tokens > 0 and spent > 0 else None
