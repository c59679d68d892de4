"""What a server or an engine tells of itself at one moment, and what becomes of it over time. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # PERF: the chat's first frame does not wait for the room of inference.
    from mlxctl.inference.request_log import RequestView

HISTORY = 120
"""How many moments are remembered."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """Counters as `GET /stats` gives them, and the requests of `GET /requests`, at a time of a monotonic
    clock (seconds).
    """

    at: float
    stats: Mapping[str, Any]
    requests: "tuple[RequestView, ...]" = ()

    def count(self, name: str) -> float:
        """Return a counter; one that this engine does not have is 0."""
        value = self.stats.get(name, 0)
        return float(value) if isinstance(value, int | float) else 0.0


def _history() -> "deque[float]":
    return deque(maxlen=HISTORY)


@dataclass(slots=True)
class Trends:
    """The last moments as rows of numbers to be plotted; the newest is last.

    `first_token` is in milliseconds.
    """

    generated: "deque[float]" = field(default_factory=_history)
    read: "deque[float]" = field(default_factory=_history)
    first_token: "deque[float]" = field(default_factory=_history)
    waiting: "deque[float]" = field(default_factory=_history)
    rows: "deque[float]" = field(default_factory=_history)
    cached: "deque[float]" = field(default_factory=_history)
    last: Observation | None = None
    _num_seen: int = 0

    def add(self, now: Observation) -> None:
        """Take the next moment.

        Counters that went back are those of an engine that was started again: there is no rate then.
        """
        before, self.last = self.last, now
        self.waiting.append(now.count("num_waiting"))
        self.rows.append(now.count("num_prefilling") + now.count("num_decoding"))
        self.first_token.append(self._first_token(now))
        if before is None or now.at <= before.at:
            return
        seconds = now.at - before.at
        generated, read, reused = (
            max(now.count(name) - before.count(name), 0.0)
            for name in ("num_generated_tokens", "num_prompt_tokens", "cache_tokens_reused")
        )
        self.generated.append(generated / seconds)
        self.read.append(read / seconds)
        known = self.cached[-1] if self.cached else 0.0
        self.cached.append(100 * reused / (reused + read) if reused + read else known)

    def _first_token(self, now: Observation) -> float:
        """The mean over the requests that began to answer since the last moment; without one, what it was."""
        answered = [view for view in now.requests if view.first_token_seconds is not None]
        fresh = [view.first_token_seconds or 0.0 for view in answered if view.number > self._num_seen]
        self._num_seen = max([self._num_seen, *(view.number for view in answered)])
        if fresh:
            return 1000 * sum(fresh) / len(fresh)
        return self.first_token[-1] if self.first_token else 0.0
