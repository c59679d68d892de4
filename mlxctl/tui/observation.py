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


_HITS = ("exact", "prefix", "supersequence", "common_prefix", "checkpoint", "miss")


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
    """Return the memory in use, and of how much."""
    active, peak = now.count("active_memory_bytes"), now.count("peak_memory_bytes")
    admission = now.stats.get("admission") or {}
    usable, machine = admission.get("usable_bytes"), admission.get("machine_memory_bytes")
    share = f" of {_bytes(usable)} ({100 * active / usable:.0f}%)" if usable else ""
    whole = f" on a machine with {_bytes(machine)}" if machine else ""
    return f"memory {_bytes(active)} in use{share}, {_bytes(peak)} peak{whole}"


def models_summary(now: Observation) -> str:
    """Return the loaded models and the accepted draft tokens; empty where unknown."""
    pool = now.stats.get("pool") or {}
    models = [
        f"{model['name']} {_bytes(model['weights_bytes'])}{', pinned' if model['is_pinned'] else ''}"
        for model in pool.get("models", ())
    ]
    drafts = [
        f"{drafter} drafts {100 * accepted / (accepted + rejected):.0f}% accepted"
        for drafter, (accepted, rejected) in (now.stats.get("draft_tokens") or {}).items()
        if accepted + rejected
    ]
    evicted = now.count("cache_evicted")
    facts = [f"loaded {'; '.join(models)}"] if models else []
    return "  ".join([*facts, *drafts, *([f"{evicted:,.0f} cache entries evicted"] if evicted else [])])


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
