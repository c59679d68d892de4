"""Server statistics at one moment, their trends, and their display text. Pure."""

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlxctl.ir.errors import shortened
from mlxctl.terminal_text import escape_line

if TYPE_CHECKING:
    # PERF: the inference package is not imported before the first frame.
    from mlxctl.inference.request_entry import RequestView

HISTORY = 120
"""Number of observations kept for plots."""
PRESSURE_PERCENT = 80
"""Usage of the prefix cache above which a warning is shown."""
_OLD_SECONDS = 2.0


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

    @property
    def cache_percent(self) -> float | None:
        """Used percent of the prefix cache's budget; None without one."""
        budget = self.count("cache_max_bytes")
        return 100 * self.count("cache_bytes") / budget if budget else None

    @property
    def prompts(self) -> list[tuple[float, float]]:
        """Cached and computed prompt tokens of the last requests, newest last."""
        return [
            (view.num_cached_tokens, max(view.num_read_tokens - view.num_cached_tokens, 0))
            for view in reversed(self.requests)
            if view.num_read_tokens
        ]

    @property
    def vision_milliseconds(self) -> list[float]:
        """Vision encoder time of the last requests with images, newest last."""
        return [
            1000 * view.vision_seconds for view in reversed(self.requests) if view.vision_seconds is not None
        ]


def _history() -> "deque[Any]":
    return deque(maxlen=HISTORY)


@dataclass(slots=True)
class Trends:
    """Recent values as series for plots, newest last.

    `first_token` is in milliseconds, `cache` in percent of its budget. `running` has pairs: running and
    waiting sequences.
    """

    generated: "deque[float]" = field(default_factory=_history)
    read: "deque[float]" = field(default_factory=_history)
    first_token: "deque[float]" = field(default_factory=_history)
    running: "deque[tuple[float, float]]" = field(default_factory=_history)
    cache: "deque[float]" = field(default_factory=_history)
    last: Observation | None = None
    _num_seen: int = 0

    def add(self, now: Observation) -> None:
        """Add an observation to the series.

        When a counter went back the engine was restarted, and its rate is 0.
        """
        before, self.last = self.last, now
        running = now.count("num_prefilling") + now.count("num_decoding")
        self.running.append((running, now.count("num_waiting")))
        self.cache.append(now.cache_percent or 0.0)
        self.first_token.append(self._first_token(now))
        if before is None or now.at <= before.at:
            return
        seconds = now.at - before.at
        generated, read = (
            max(now.count(name) - before.count(name), 0.0)
            for name in ("num_generated_tokens", "num_prompt_tokens")
        )
        self.generated.append(generated / seconds)
        self.read.append(read / seconds)

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


def summary(now: Observation) -> list[str]:
    """Return the lines on cache, tokens, memory and models."""
    lines = [*_cache_lines(now), _tokens_line(now), memory_summary(now), models_summary(now)]
    # Names and counters are those of a server.
    return [escape_line(shortened(line)) for line in lines if line]


def warnings(now: Observation) -> list[str]:
    """Return warnings of old figures and of a nearly full prefix cache."""
    found = []
    if (age := now.count("stats_age_seconds")) > _OLD_SECONDS:
        found.append(f"The figures of the engine are {age:.0f} s old: it is busy with a long computation")
    if (percent := now.cache_percent or 0.0) > PRESSURE_PERCENT:
        found.append(f"Memory pressure — evicting old entries ({percent:.0f}% of the prefix cache is used)")
    return found


def _cache_lines(now: Observation) -> list[str]:
    """Return the usage and the hits of the prefix cache."""
    hits = now.stats.get("cache_hits") or {}
    counts = {name: hits[name] for name in (*_HITS, *hits) if hits.get(name)}
    num_lookups, reused = sum(counts.values()), now.count("cache_tokens_reused")
    percent = now.cache_percent
    facts = [
        f"cache {format_bytes(now.count('cache_bytes'))} of {format_bytes(now.count('cache_max_bytes'))}"
        + ("" if percent is None else f" ({percent:.0f}%)"),
        _count_entries(now.count("cache_chunks")),
    ]
    if num_lookups:
        num_prompt = reused + now.count("num_prompt_tokens")
        facts.append(f"hit rate {100 * (1 - counts.get('miss', 0) / num_lookups):.0f}%")
        facts.append(f"average match {100 * reused / num_prompt if num_prompt else 0:.0f}%")
    lookups = ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items())
    evicted, freed = now.count("cache_evicted"), now.count("cache_evicted_bytes")
    loss = f"; {_count_entries(evicted)} evicted" if evicted else ""
    loss += f", {format_bytes(freed)} freed" if freed else ""
    return [", ".join(facts), f"lookups {lookups or 'none yet'}{loss}"]


def _count_entries(number: float) -> str:
    return f"{number:,.0f} {'entry' if number == 1 else 'entries'}"


def _tokens_line(now: Observation) -> str:
    """Return the totals of tokens, disconnects and vision time."""
    tokens = {
        "from cache": now.count("cache_tokens_reused"),
        "prefilled": now.count("num_prompt_tokens"),
    }
    facts = ["tokens " + ", ".join(f"{number:,.0f} {name}" for name, number in tokens.items())]
    if "num_disconnects" in now.stats:
        facts.append(f"disconnects {now.count('num_disconnects'):,.0f}")
    if seconds := now.count("vision_seconds"):
        facts.append(f"images {seconds:,.1f} s")
    return "  ".join(facts)


def memory_summary(now: Observation) -> str:
    """Return the memory in use, and of how much."""
    active, peak = now.count("active_memory_bytes"), now.count("peak_memory_bytes")
    admission = now.stats.get("admission") or {}
    usable, machine = admission.get("usable_bytes"), admission.get("machine_memory_bytes")
    share = f" of {format_bytes(usable)} ({100 * active / usable:.0f}%)" if usable else ""
    whole = f" on a machine with {format_bytes(machine)}" if machine else ""
    return f"memory {format_bytes(active)} in use{share}, {format_bytes(peak)} peak{whole}"


def models_summary(now: Observation) -> str:
    """Return loaded models, KV formats and accepted draft tokens.

    Empty where they are unknown.
    """
    pool, formats = now.stats.get("pool") or {}, now.stats.get("kv_quant") or {}
    models = [
        f"{model['name']} {format_bytes(model['weights_bytes'])}{', pinned' if model['is_pinned'] else ''}"
        f"{_describe_kv(formats.get(model['name']))}"
        for model in pool.get("models", ())
    ]
    drafts = [
        f"{drafter} drafts {100 * accepted / (accepted + rejected):.0f}% accepted"
        for drafter, (accepted, rejected) in (now.stats.get("draft_tokens") or {}).items()
        if accepted + rejected
    ]
    facts = [f"loaded {'; '.join(models)}"] if models else []
    if "prefix_cache_bits" in now.stats:
        bits = now.stats["prefix_cache_bits"]
        facts.append(f"prefix cache {f'{bits}-bit' if bits else 'not quantized'}")
    return "  ".join([*facts, *drafts])


def _describe_kv(quant: "Mapping[str, Any] | None") -> str:
    """Return the KV cache format of a model; empty where unknown."""
    if quant is None:
        return ""
    if quant["mode"] == "full":
        return ", KV not quantized"
    layers = quant["layers"]
    num_layers, num_quantized = sum(layers.values()), layers.get(f"kv{quant['mode']}", 0)
    share = f" in {num_quantized} of {num_layers} layers" if num_quantized < num_layers else ""
    return f", KV {quant['mode']}-bit{share}"


def format_bytes(number: float) -> str:
    """Return a size with its decimal unit."""
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
