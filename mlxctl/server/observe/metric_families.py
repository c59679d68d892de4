"""The metrics of `GET /metrics` as Prometheus families."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from mlxctl.engine import EngineStatus, Stats
from mlxctl.inference import ServedModel
from mlxctl.inference.image_fetching.fetcher import FetchTotals
from mlxctl.inference.models.manager import RouteResult
from mlxctl.inference.models.model_states import ModelStats
from mlxctl.inference.request_context import RequestContext
from mlxctl.inference.request_totals import ModelTotals
from mlxctl.ir.distribution import Distribution
from mlxctl.library.text_config import text_part
from mlxctl.library.weights import count_experts
from mlxctl.protocols import AgentStatus
from mlxctl.server.observe.engine_metrics import buckets, engine_families

if TYPE_CHECKING:
    from prometheus_client import Metric


_DENIALS = frozenset(
    {
        "invalid_api_key",
        "invalid_token",
        "admin_key_required",
        "insufficient_scope",
        "policy_denied",
        "policy_unavailable",
    }
)
"""Codes of errors by which a request is denied, whatever its content."""


@dataclass(slots=True)
class HttpRequestCounts:
    """HTTP requests that were stopped or denied. Event-loop thread only.

    `guardrails` counts by verdict, `denials` by error code.
    """

    num_disconnects: int = 0
    num_deadlines: int = 0
    guardrails: Counter[str] = field(default_factory=Counter)
    denials: Counter[str] = field(default_factory=Counter)

    def record(self, request: RequestContext) -> None:
        """Count an ended request."""
        self.num_disconnects += request.stop_cause == "disconnected"
        self.num_deadlines += request.stop_cause == "timed_out"
        if request.guardrail is not None:
            self.guardrails[request.guardrail] += 1
        if request.error in _DENIALS:
            self.denials[request.error] += 1


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Everything that one scrape reports.

    `engine` is None while the engine does not answer. `routes` counts requests by model and result,
    `rate_limited` refused requests by the limit that they reached,
    `agents` recently active agents by status, None where that is unknown, `agent_turns` open turns of agents
    by state.
    """

    totals: Mapping[str, ModelTotals]
    status: EngineStatus
    num_restarts: int
    http: HttpRequestCounts
    pool: ModelStats
    rate_limited: Mapping[str, int] = field(default_factory=dict)
    num_audit_dropped: int = 0
    agents: Mapping[AgentStatus, int] | None = None
    agent_turns: Mapping[str, int] = field(default_factory=dict)
    routes: Mapping[tuple[str, RouteResult], int] = field(default_factory=dict)
    models: Sequence[ServedModel] = ()
    fetched_images: FetchTotals = field(default_factory=FetchTotals)
    engine: Stats | None = None


def metric_families(snapshot: MetricsSnapshot) -> "Iterator[Metric]":
    """Return all metrics; those of the engine only if it answered."""
    yield from _requests(snapshot.totals)
    yield from _request_histograms(snapshot.totals)
    yield from _server(snapshot)
    yield from _models(snapshot)
    if snapshot.engine is not None:
        yield from engine_families(snapshot.engine)


def _requests(totals: Mapping[str, ModelTotals]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily

    ends = CounterMetricFamily(
        "mlxctl_requests",
        "Ended requests by result, finish reason and protocol.",
        labels=["model", "end", "finish_reason", "protocol"],
    )
    prompt = CounterMetricFamily(
        "mlxctl_prompt_tokens", "Prompt tokens read, cached ones included.", labels=["model"]
    )
    cached = CounterMetricFamily(
        "mlxctl_cached_prompt_tokens", "Prompt tokens found in the prefix cache.", labels=["model"]
    )
    generated = CounterMetricFamily("mlxctl_generated_tokens", "Generated tokens.", labels=["model"])
    for model, total in totals.items():
        for end, number in total.ends.items():
            ends.add_metric([model, *end], number)
        prompt.add_metric([model], total.num_prompt)
        cached.add_metric([model], total.num_cached)
        generated.add_metric([model], total.num_generated)
    yield from (ends, prompt, cached, generated)


_REQUEST_HISTOGRAMS = (
    ("mlxctl_time_to_first_token_seconds", "Time from request to first token.", "first_token"),
    ("mlxctl_time_per_output_token_seconds", "Time per output token.", "next_token"),
    ("mlxctl_request_seconds", "Duration of a request.", "whole"),
    ("mlxctl_queue_seconds", "Time in the engine's queue.", "queue"),
    ("mlxctl_prefill_seconds", "Time from leaving the queue to the end of prefill.", "prefill"),
    ("mlxctl_prefill_tokens_per_second", "Computed prompt tokens per second of prefill.", "prefill_speed"),
    ("mlxctl_prompt_tokens_per_request", "Prompt tokens per request.", "prompt_tokens"),
    ("mlxctl_prefix_match_tokens", "Prompt tokens found in the prefix cache, per request.", "match_tokens"),
    ("mlxctl_prefix_match_ratio", "Share of the prompt found in the prefix cache.", "match_ratio"),
    ("mlxctl_vision_seconds", "Time of the vision encoder, for requests with images.", "vision"),
)


def _request_histograms(totals: Mapping[str, ModelTotals]) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import HistogramMetricFamily

    for name, text, attribute in _REQUEST_HISTOGRAMS:
        family = HistogramMetricFamily(name, text, labels=["model"])
        for model, total in totals.items():
            distribution: Distribution = getattr(total, attribute)
            family.add_metric([model], buckets(distribution), distribution.total)
        yield family


def _server(snapshot: MetricsSnapshot) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    yield GaugeMetricFamily("mlxctl_ready", "1 when requests are accepted.", value=snapshot.status == "ready")
    yield CounterMetricFamily("mlxctl_engine_restarts", "Engine restarts.", value=snapshot.num_restarts)
    yield CounterMetricFamily(
        "mlxctl_disconnects",
        "Requests whose client left before their end.",
        value=snapshot.http.num_disconnects,
    )
    yield CounterMetricFamily(
        "mlxctl_deadlines", "Requests that exceeded the time limit.", value=snapshot.http.num_deadlines
    )
    yield CounterMetricFamily(
        "mlxctl_audit_dropped", "Audit records that were lost.", value=snapshot.num_audit_dropped
    )
    for name, text, label, counts in (
        ("rate_limited", "Requests refused with 429, by limit.", "limit", snapshot.rate_limited),
        ("guardrail_matches", "Requests with a guardrail match.", "verdict", snapshot.http.guardrails),
        ("denied", "Requests denied for their key or by a policy.", "code", snapshot.http.denials),
        ("image_fetches", "Images to fetch by URL.", "outcome", snapshot.fetched_images.outcomes),
    ):
        family = CounterMetricFamily(f"mlxctl_{name}", text, labels=[label])
        for value, number in counts.items():
            family.add_metric([value], number)
        yield family
    yield CounterMetricFamily(
        "mlxctl_image_fetch_bytes", "Bytes of fetched images.", value=snapshot.fetched_images.num_bytes
    )
    yield CounterMetricFamily(
        "mlxctl_image_fetch_seconds", "Time of fetching images.", value=snapshot.fetched_images.seconds
    )
    turns = GaugeMetricFamily(
        "mlxctl_agent_turns", "Open turns of agents; a turn waits for the agent's last one.", labels=["state"]
    )
    for state, number in snapshot.agent_turns.items():
        turns.add_metric([state], number)
    yield turns
    if snapshot.agents is not None:
        agents = GaugeMetricFamily(
            "mlxctl_agents",
            "Agents of the last hour by status: hot in memory, warm on disk, cold in neither.",
            labels=["status"],
        )
        for status, number in snapshot.agents.items():
            agents.add_metric([status], number)
        yield agents


def _models(snapshot: MetricsSnapshot) -> "Iterator[Metric]":
    from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily

    pool = snapshot.pool
    yield CounterMetricFamily("mlxctl_model_loads", "Models loaded after the start.", value=pool.num_loads)
    yield CounterMetricFamily(
        "mlxctl_model_evictions", "Models evicted for others.", value=pool.num_evictions
    )
    yield CounterMetricFamily(
        "mlxctl_model_swaps", "Loads for which other models were evicted.", value=pool.num_swaps
    )
    routes = CounterMetricFamily(
        "mlxctl_model_routes",
        "Requests by the result of resolving their model; unknown models have no name.",
        labels=["model", "result"],
    )
    for labels, number in snapshot.routes.items():
        routes.add_metric(labels, number)
    yield routes
    loaded = GaugeMetricFamily("mlxctl_model_loaded", "1 when the model is in memory.", labels=["model"])
    healthy = GaugeMetricFamily("mlxctl_model_healthy", "0 when the last load failed.", labels=["model"])
    moe = CounterMetricFamily(
        "mlxctl_moe_requests", "Ended requests to models with a mixture of experts.", labels=["model"]
    )
    for model in snapshot.models:
        loaded.add_metric([model.name], model.state == "loaded")
        healthy.add_metric([model.name], model.problem is None)
        if model.name in snapshot.totals and count_experts(text_part(model.facts.config)) is not None:
            moe.add_metric([model.name], snapshot.totals[model.name].ends.total())
    yield from (loaded, healthy, moe)
    weights = GaugeMetricFamily("mlxctl_model_weights_bytes", "Weights of a loaded model.", labels=["model"])
    kv_bytes = GaugeMetricFamily(
        "mlxctl_model_kv_bytes_per_token", "KV cache per token of a loaded model.", labels=["model"]
    )
    requests = GaugeMetricFamily(
        "mlxctl_model_requests", "Requests that use a loaded model.", labels=["model"]
    )
    for memory in pool.models:
        weights.add_metric([memory.name], memory.weights_bytes)
        kv_bytes.add_metric([memory.name], memory.kv_bytes_per_token)
        requests.add_metric([memory.name], memory.num_requests)
    yield from (weights, kv_bytes, requests)
