"""Metrics of the engine and its prefix cache, as Prometheus families."""

from collections.abc import Iterator
from math import isfinite
from typing import TYPE_CHECKING

from mlxctl.engine import Stats
from mlxctl.ir.distribution import Distribution

if TYPE_CHECKING:
    from prometheus_client import Metric


def engine_families(stats: Stats) -> "Iterator[Metric]":
    """Return the metrics of the engine, its scheduler and its prefix cache."""
    yield from _engine(stats)
    yield from _prefix_cache(stats)


def _engine(stats: Stats) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import (
        CounterMetricFamily,
        GaugeMetricFamily,
        HistogramMetricFamily,
    )

    rows = GaugeMetricFamily("mlxctl_sequences", "Sequences in the engine by state.", labels=["state"])
    for state, number in (
        ("waiting", stats.num_waiting),
        ("prefilling", stats.num_prefilling),
        ("decoding", stats.num_decoding),
    ):
        rows.add_metric([state], number)
    yield rows
    yield from _fairness(stats)
    yield CounterMetricFamily("mlxctl_engine_steps", "Engine steps since its start.", value=stats.num_steps)
    drafts = CounterMetricFamily(
        "mlxctl_draft_tokens",
        "Draft tokens of speculative decoding by result: accepted or rejected.",
        labels=["drafter", "result"],
    )
    for drafter, (accepted, rejected) in stats.draft_tokens.items():
        drafts.add_metric([drafter, "accepted"], accepted)
        drafts.add_metric([drafter, "rejected"], rejected)
    yield drafts
    per_draft = HistogramMetricFamily(
        "mlxctl_draft_accepted_tokens", "Accepted tokens of a verified draft.", labels=["drafter"]
    )
    for drafter, distribution in stats.draft_accepted.items():
        per_draft.add_metric([drafter], buckets(distribution), distribution.total)
    yield per_draft
    for name, text, distribution in (
        ("mlxctl_decode_step_seconds", "Duration of a decode step.", stats.decode_step_seconds),
        ("mlxctl_batch_rows", "Sequences in a decode step.", stats.batch_rows),
    ):
        yield HistogramMetricFamily(name, text, buckets=buckets(distribution), sum_value=distribution.total)
    yield from _sizes(
        ("active_memory", "MLX active memory.", stats.active_memory_bytes),
        ("peak_memory", "MLX peak memory.", stats.peak_memory_bytes),
        ("buffer_cache", "MLX buffer cache.", stats.buffer_cache_bytes),
        ("engine_resident", "Resident memory of the engine process.", stats.resident_bytes),
    )


def _fairness(stats: Stats) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

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
        yield CounterMetricFamily(f"mlxctl_fairness_{name}", text, value=value)
    tokens = CounterMetricFamily(
        "mlxctl_fairness_tokens", "Computed tokens of prompts and answers.", labels=["priority"]
    )
    for priority, number in stats.tokens_by_priority.items():
        tokens.add_metric([str(priority)], number)
    depth = GaugeMetricFamily("mlxctl_queue_depth", "Sequences that wait for a place.", labels=["priority"])
    # Alerts and autoscalers need a sample while nothing waits.
    for priority, number in ({0: 0} | dict(stats.waiting_by_priority)).items():
        depth.add_metric([str(priority)], number)
    yield from (tokens, depth)


def _prefix_cache(stats: Stats) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    hits = CounterMetricFamily(
        "mlxctl_prefix_cache_lookups", "Prefix cache lookups by kind of hit.", labels=["hit"]
    )
    for hit, number in stats.cache_hits.items():
        hits.add_metric([hit], number)
    yield hits
    for name, text, value in (
        ("evicted_chunks", "Evicted prefix cache chunks.", stats.cache_evicted),
        ("evicted_bytes", "Evicted bytes of the prefix cache.", stats.cache_evicted_bytes),
        ("promotions", "Prompts whose prefix was read from disk.", stats.cache_promotions),
    ):
        yield CounterMetricFamily(f"mlxctl_prefix_cache_{name}", text, value=value)
    yield GaugeMetricFamily("mlxctl_prefix_cache_entries", "Chunks in memory.", value=stats.cache_chunks)
    yield GaugeMetricFamily("mlxctl_prefix_cache_tokens", "Tokens in memory.", value=stats.cache_tokens)
    if (ratio := hit_ratio(stats)) is not None:
        yield GaugeMetricFamily("mlxctl_prefix_cache_hit_ratio", "Share of lookups with a hit.", value=ratio)
    if stats.cache_oldest_seconds is not None:
        yield GaugeMetricFamily(
            "mlxctl_prefix_cache_oldest_seconds",
            "Time since the last use of the oldest chunk.",
            value=stats.cache_oldest_seconds,
        )
    yield from _sizes(
        ("prefix_cache", "Prefix cache size in memory.", stats.cache_bytes),
        ("prefix_cache_limit", "Maximum prefix cache size in memory.", stats.cache_max_bytes),
    )
    if (disk := stats.cache_disk) is not None:
        yield from _sizes(
            ("prefix_cache_disk", "Prefix cache size on disk.", disk.num_bytes),
            ("prefix_cache_disk_limit", "Maximum prefix cache size on disk.", disk.max_bytes),
        )
        yield CounterMetricFamily(
            "mlxctl_prefix_cache_disk_damaged", "Unusable records on disk.", value=disk.num_damaged
        )


def hit_ratio(stats: Stats) -> float | None:
    """Return the share of prefix cache lookups with a hit.

    None without lookups.
    """
    num_lookups = sum(stats.cache_hits.values())
    return 1 - stats.cache_hits.get("miss", 0) / num_lookups if num_lookups else None


def _sizes(*values: tuple[str, str, int | None]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import GaugeMetricFamily

    for name, text, value in values:
        if value is not None:
            yield GaugeMetricFamily(f"mlxctl_{name}_bytes", text, value=value)


def buckets(distribution: Distribution) -> list[tuple[str, float]]:
    """Return the upper bounds and cumulative counts of a histogram."""
    return [
        (str(bound) if isfinite(bound) else "+Inf", number) for bound, number in distribution.cumulative()
    ]
