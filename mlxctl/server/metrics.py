"""GET /metrics, in the Prometheus text format."""

from collections.abc import Iterator, Mapping
from math import isfinite
from typing import TYPE_CHECKING

from falcon.asgi import Request, Response

from mlxctl.engine import EngineStatus, Stats
from mlxctl.errors import MlxctlError
from mlxctl.inference import InferenceService
from mlxctl.inference.request_totals import Distribution, ModelTotals

if TYPE_CHECKING:
    from prometheus_client import Metric


class MetricsResource:
    """Request counters, latency histograms and engine gauges; without an engine, no gauges."""

    def __init__(self, inference: InferenceService) -> None:
        self._inference = inference

    async def on_get(self, request: Request, response: Response) -> None:  # noqa: ARG002
        """Query the engine and render all metrics."""
        # PERF: imported at the first scrape, not at the start of the server.
        from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
        from prometheus_client.registry import CollectorRegistry

        try:
            stats = await self._inference.engine_stats()
        except MlxctlError:
            stats = None
        registry = CollectorRegistry()
        registry.register(_Snapshot(self._inference, stats))
        response.data = generate_latest(registry)
        response.content_type = CONTENT_TYPE_LATEST

    on_head = on_get


class _Snapshot:
    """Collector for one scrape."""

    def __init__(self, inference: InferenceService, stats: Stats | None) -> None:
        self._inference = inference
        self._stats = stats

    def collect(self) -> "Iterator[Metric]":
        """Return the metrics."""
        inference = self._inference
        totals, status, num_restarts = inference.totals(), inference.status, inference.num_engine_restarts
        return metric_families(totals, status=status, num_restarts=num_restarts, stats=self._stats)

    def describe(self) -> "Iterator[Metric]":
        """Return nothing: the metrics are known only at collection."""
        return iter(())


def metric_families(
    totals: Mapping[str, ModelTotals], *, status: EngineStatus, num_restarts: int, stats: Stats | None
) -> "Iterator[Metric]":
    """Return all metrics; without `stats`, those of the engine are missing."""
    yield from _requests(totals)
    yield from _server(status, num_restarts)
    if stats is not None:
        yield from _engine(stats)


def _requests(totals: Mapping[str, ModelTotals]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily

    ends = CounterMetricFamily("mlxctl_requests", "Finished requests by result.", labels=["model", "end"])
    prompt = CounterMetricFamily(
        "mlxctl_prompt_tokens", "Prompt tokens, cached ones included.", labels=["model"]
    )
    cached = CounterMetricFamily(
        "mlxctl_cached_prompt_tokens", "Prompt tokens found in the prefix cache.", labels=["model"]
    )
    generated = CounterMetricFamily("mlxctl_generated_tokens", "Generated tokens.", labels=["model"])
    for model, total in totals.items():
        for end, number in total.ends.items():
            ends.add_metric([model, end], number)
        prompt.add_metric([model], total.num_prompt)
        cached.add_metric([model], total.num_cached)
        generated.add_metric([model], total.num_generated)
    yield from (ends, prompt, cached, generated)
    yield from _times(totals)


def _times(totals: Mapping[str, ModelTotals]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import HistogramMetricFamily

    first = HistogramMetricFamily(
        "mlxctl_time_to_first_token_seconds", "Time from request to first token.", labels=["model"]
    )
    following = HistogramMetricFamily(
        "mlxctl_time_per_output_token_seconds", "Time per output token.", labels=["model"]
    )
    whole = HistogramMetricFamily("mlxctl_request_seconds", "Duration of a request.", labels=["model"])
    for model, total in totals.items():
        for family, distribution in (
            (first, total.first_token),
            (following, total.next_token),
            (whole, total.whole),
        ):
            family.add_metric([model], _buckets(distribution), distribution.total)
    yield from (first, following, whole)


def _buckets(distribution: Distribution) -> list[tuple[str, float]]:
    return [
        (str(bound) if isfinite(bound) else "+Inf", number) for bound, number in distribution.cumulative()
    ]


def _server(status: EngineStatus, num_restarts: int) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    yield GaugeMetricFamily("mlxctl_ready", "1 when requests are accepted.", value=status == "ready")
    yield CounterMetricFamily("mlxctl_engine_restarts", "Engine restarts.", value=num_restarts)


def _engine(stats: Stats) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    rows = GaugeMetricFamily("mlxctl_sequences", "Sequences in the engine by state.", labels=["state"])
    for state, number in (
        ("waiting", stats.num_waiting),
        ("prefilling", stats.num_prefilling),
        ("decoding", stats.num_decoding),
    ):
        rows.add_metric([state], number)
    yield rows
    yield CounterMetricFamily("mlxctl_engine_steps", "Engine steps since its start.", value=stats.num_steps)
    hits = CounterMetricFamily(
        "mlxctl_prefix_cache_lookups", "Prefix cache lookups by kind of hit.", labels=["hit"]
    )
    for hit, number in stats.cache_hits.items():
        hits.add_metric([hit], number)
    yield hits
    yield CounterMetricFamily(
        "mlxctl_prefix_cache_evicted_chunks", "Evicted prefix cache chunks.", value=stats.cache_evicted
    )
    for name, text, value in (
        ("prefix_cache", "Prefix cache size in memory.", stats.cache_bytes),
        ("prefix_cache_limit", "Maximum prefix cache size in memory.", stats.cache_max_bytes),
        ("active_memory", "MLX active memory.", stats.active_memory_bytes),
        ("peak_memory", "MLX peak memory.", stats.peak_memory_bytes),
        ("buffer_cache", "MLX buffer cache.", stats.buffer_cache_bytes),
        ("engine_resident", "Resident memory of the engine process.", stats.resident_bytes),
    ):
        if value is not None:
            yield GaugeMetricFamily(f"mlxctl_{name}_bytes", text, value=value)
