"""Metrics of the engine and its prefix cache, as Prometheus families."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from mlxctl.engine import Stats
from mlxctl.server.observe.metric_family import counter, gauge, histogram

if TYPE_CHECKING:
    from prometheus_client import Metric


def engine_families(stats: Stats) -> "Iterator[Metric]":
    """Return the metrics of the engine, its scheduler and its prefix cache."""
    yield from _engine(stats)
    yield from _prefix_cache(stats)


def _engine(stats: Stats) -> "Iterator[Metric]":
    rows = {
        "waiting": stats.num_waiting,
        "prefilling": stats.num_prefilling,
        "decoding": stats.num_decoding,
    }
    yield gauge("sequences", "Sequences in the engine by state.", rows, "state")
    yield from _fairness(stats)
    yield counter("engine_steps", "Engine steps since its start.", stats.num_steps)
    drafts = {
        (drafter, result): number
        for drafter, numbers in stats.draft_tokens.items()
        for result, number in zip(("accepted", "rejected"), numbers, strict=True)
    }
    yield counter(
        "draft_tokens",
        "Draft tokens of speculative decoding by result: accepted or rejected.",
        drafts,
        "drafter",
        "result",
    )
    yield histogram(
        "draft_accepted_tokens", "Accepted tokens of a verified draft.", stats.draft_accepted, "drafter"
    )
    yield histogram("decode_step_seconds", "Duration of a decode step.", stats.decode_step_seconds)
    yield histogram("batch_rows", "Sequences in a decode step.", stats.batch_rows)
    yield from _sizes(
        ("active_memory", "MLX active memory.", stats.active_memory_bytes),
        ("peak_memory", "MLX peak memory.", stats.peak_memory_bytes),
        ("buffer_cache", "MLX buffer cache.", stats.buffer_cache_bytes),
        ("engine_resident", "Resident memory of the engine process.", stats.resident_bytes),
    )
    ranks = {str(rank): num_bytes for rank, num_bytes in stats.rank_memory_bytes.items()}
    yield gauge("rank_memory_bytes", "MLX active memory of each other rank.", ranks, "rank")


def _fairness(stats: Stats) -> "Iterator[Metric]":
    for name, text, value in (
        ("preemptions", "Rows interrupted for a request of high priority.", stats.num_preemptions),
        (
            "yields",
            "Rows interrupted after their time slice, or for another caller's share.",
            stats.num_yields,
        ),
        ("pauses", "Rows interrupted because their client did not read.", stats.num_pauses),
        ("resumes", "Interrupted rows that continued.", stats.num_resumes),
    ):
        yield counter(f"fairness_{name}", text, value)
    tokens = {str(priority): number for priority, number in stats.tokens_by_priority.items()}
    yield counter("fairness_tokens", "Computed tokens of prompts and answers.", tokens, "priority")
    # Alerts and autoscalers need a sample while nothing waits.
    waiting = {str(priority): number for priority, number in ({0: 0} | stats.waiting_by_priority).items()}
    yield gauge("queue_depth", "Sequences that wait for a place.", waiting, "priority")


def _prefix_cache(stats: Stats) -> "Iterator[Metric]":
    yield counter("prefix_cache_lookups", "Prefix cache lookups by kind of hit.", stats.cache_hits, "hit")
    for name, text, value in (
        ("evicted_chunks", "Evicted prefix cache chunks.", stats.cache_evicted),
        ("evicted_bytes", "Evicted bytes of the prefix cache.", stats.cache_evicted_bytes),
        ("promotions", "Prompts whose prefix was read from disk.", stats.cache_promotions),
    ):
        yield counter(f"prefix_cache_{name}", text, value)
    yield gauge("prefix_cache_entries", "Chunks in memory.", stats.cache_chunks)
    yield gauge("prefix_cache_tokens", "Tokens in memory.", stats.cache_tokens)
    if (ratio := hit_ratio(stats)) is not None:
        yield gauge("prefix_cache_hit_ratio", "Share of lookups with a hit.", ratio)
    if (seconds := stats.cache_oldest_seconds) is not None:
        yield gauge("prefix_cache_oldest_seconds", "Time since the last use of the oldest chunk.", seconds)
    yield from _sizes(
        ("prefix_cache", "Prefix cache size in memory.", stats.cache_bytes),
        ("prefix_cache_limit", "Maximum prefix cache size in memory.", stats.cache_max_bytes),
    )
    if (disk := stats.cache_disk) is not None:
        yield from _sizes(
            ("prefix_cache_disk", "Prefix cache size on disk.", disk.num_bytes),
            ("prefix_cache_disk_limit", "Maximum prefix cache size on disk.", disk.max_bytes),
        )
        yield counter("prefix_cache_disk_damaged", "Unusable records on disk.", disk.num_damaged)


def hit_ratio(stats: Stats) -> float | None:
    """Return the share of prefix cache lookups with a hit.

    None without lookups.
    """
    num_lookups = sum(stats.cache_hits.values())
    return 1 - stats.cache_hits.get("miss", 0) / num_lookups if num_lookups else None


def _sizes(*values: tuple[str, str, int | None]) -> "Iterator[Metric]":
    for name, text, value in values:
        if value is not None:
            yield gauge(f"{name}_bytes", text, value)
