"""Requests, cache and memory as columns and lines, for the monitor's screen and for plain text. Pure."""

from mlxctl.inference.request_log import RequestView
from mlxctl.tui.observation import Observation

COLUMNS = ("#", "model", "state", "prompt", "cached", "answer", "tok/s", "first", "time")
WORD_COLUMNS = frozenset({"model", "state"})
"""The columns that hold words; the others hold numbers, which stand at the right."""

_HITS = ("exact", "prefix", "supersequence", "common_prefix", "checkpoint", "miss")


def row(view: RequestView) -> tuple[str, ...]:
    """Return the cells of one request."""
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


def cache_words(now: Observation) -> str:
    """Return the usage of the prefix cache and its hits."""
    used, budget = now.count("cache_bytes"), now.count("cache_max_bytes")
    share = f" ({100 * used / budget:.0f}%)" if budget else ""
    hits = now.stats.get("cache_hits") or {}
    counts = {name: hits[name] for name in (*_HITS, *hits) if hits.get(name)}
    told = (
        ", ".join(f"{name.replace('_', ' ')} {count:,}" for name, count in counts.items()) or "no prompt yet"
    )
    return f"cache {_bytes(used)} of {_bytes(budget)}{share}, {now.count('cache_tokens_reused'):,.0f} tokens reused: {told}"


def memory_words(now: Observation) -> str:
    """Return the memory in use."""
    active, peak = now.count("active_memory_bytes"), now.count("peak_memory_bytes")
    return f"memory {_bytes(active)} in use, {_bytes(peak)} peak; {now.count('cache_evicted'):,.0f} cache entries evicted"


def _bytes(number: float) -> str:
    for unit, size in (("GB", 1e9), ("MB", 1e6), ("kB", 1e3)):
        if number >= size:
            return f"{number / size:.1f} {unit}"
    return f"{number:.0f} B"
