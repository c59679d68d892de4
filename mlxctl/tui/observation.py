"""Server statistics at one moment, their trends, and their display text. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    # PERF: the inference package is not imported before the first frame.
    from mlxctl.inference.request_entry import RequestView

HISTORY = 120
"""Number of observations kept for plots."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Observation:
    """The counters of `GET /stats` and the requests of `GET /requests`.

    `at` is in seconds of a monotonic clock.
    """

    at: float
    stats: Mapping[str, Any]
    requests: "tuple[RequestView, ...]" = ()

    def count(self, name: str) -> float:
        """Return a counter; 0 when the engine does not have it."""
        value = self.stats.get(name, 0)
        return float(value) if isinstance(value, int | float) else 0.0


def _history() -> "deque[float]":
    return deque(maxlen=HISTORY)


@dataclass(slots=True)
class Trends:
    """Recent values as series for plots, newest last; `first_token` in milliseconds."""

    generated: "deque[float]" = field(default_factory=_history)
    read: "deque[float]" = field(default_factory=_history)
    first_token: "deque[float]" = field(default_factory=_history)
    waiting: "deque[float]" = field(default_factory=_history)
    rows: "deque[float]" = field(default_factory=_history)
    cached: "deque[float]" = field(default_factory=_history)
    last: Observation | None = None
    _num_seen: int = 0

    def add(self, now: Observation) -> None:
        """Add an observation to the series.

        When a counter went back the engine was restarted, and its rate is 0.
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
        previous = self.cached[-1] if self.cached else 0.0
        self.cached.append(100 * reused / (reused + read) if reused + read else previous)

    def _first_token(self, now: Observation) -> float:
        """Return the mean over requests with a new first token.

        Without one, the last value.
        """
        answered = [view for view in now.requests if view.first_token_seconds is not None]
        fresh = [view.first_token_seconds or 0.0 for view in answered if view.number > self._num_seen]
        self._num_seen = max([self._num_seen, *(view.number for view in answered)])
        if fresh:
            return 1000 * sum(fresh) / len(fresh)
        return self.first_token[-1] if self.first_token else 0.0


COLUMNS = ("#", "model", "state", "prompt", "cached", "answer", "tok/s", "first", "time")
TEXT_COLUMNS = frozenset({"model", "state"})
"""Columns of text; the others are right-aligned numbers."""

_HITS = ("exact", "prefix", "supersequence", "common_prefix", "checkpoint", "miss")


def request_row(view: "RequestView") -> tuple[str, ...]:
    """Return the table cells of one request."""
    is_reading = view.state == "reading"
    prompt = (
        f"{view.num_read_tokens:,}/{view.num_prompt_tokens:,}"
        if is_reading
        else f"{view.num_prompt_tokens:,}"
    )
    return (
        str(view.number),
        view.model,
        view.state,
        prompt,
        f"{100 * view.num_cached_tokens // max(view.num_prompt_tokens, 1)}%",
        f"{view.num_generated_tokens:,}",
        "" if view.tokens_per_second is None else f"{view.tokens_per_second:.0f}",
        "" if view.first_token_seconds is None else f"{view.first_token_seconds:.2f} s",
        f"{view.age_seconds:.1f} s",
    )


def cache_summary(now: Observation) -> str:
    """Return the usage and the hits of the prefix cache."""
    used, budget = now.count("cache_bytes"), now.count("cache_max_bytes")
    share = f" ({100 * used / budget:.0f}%)" if budget else ""
    hits = now.stats.get("cache_hits") or {}
    counts = {name: hits[name] for name in (*_HITS, *hits) if hits.get(name)}
    hits_text = (
        ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()) or "no prompt yet"
    )
    reused = f"{now.count('cache_tokens_reused'):,.0f} tokens reused"
    return f"cache {_bytes(used)} of {_bytes(budget)}{share}, {reused}: {hits_text}"


def memory_summary(now: Observation) -> str:
    """Return the memory in use."""
    active, peak = now.count("active_memory_bytes"), now.count("peak_memory_bytes")
    evicted = f"{now.count('cache_evicted'):,.0f} cache entries evicted"
    return f"memory {_bytes(active)} in use, {_bytes(peak)} peak; {evicted}"


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
