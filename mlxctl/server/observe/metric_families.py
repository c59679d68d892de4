"""The metrics of `GET /metrics` as Prometheus families."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from mlxctl.engine import EngineStatus, Stats
from mlxctl.inference import ServedModel
from mlxctl.inference.image_fetching.fetcher import FetchTotals
from mlxctl.inference.models.manager import RouteResult
from mlxctl.inference.models.model_states import ModelStats
from mlxctl.inference.request_totals import FIRST_TOKEN_SECONDS, ModelTotals
from mlxctl.inference.routing import RemoteServer
from mlxctl.inference.routing.breaker import BREAKER_STATES
from mlxctl.inference.routing.remote_server import REMOTE_RESULTS
from mlxctl.ir.distribution import Distribution
from mlxctl.library.text_config import text_part
from mlxctl.library.weights import count_experts
from mlxctl.protocols import AgentStatus
from mlxctl.server.observe.engine_metrics import engine_families
from mlxctl.server.observe.http_record import HttpRecord, SpeechFigures
from mlxctl.server.observe.metric_family import counter, gauge, histogram

if TYPE_CHECKING:
    from prometheus_client import Metric


# Below 1, audio is computed faster than it plays.
_REAL_TIME_FACTORS = (0.05, 0.1, 0.2, 0.3, 0.5, 0.75, 1.0, 1.5, 2.0, 5.0, 10.0)
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
class SpeechTotals:
    """Speech requests of one model."""

    num_characters: int = 0
    audio_seconds: float = 0.0
    first_audio: Distribution = field(default_factory=lambda: Distribution.of(FIRST_TOKEN_SECONDS))
    real_time_factor: Distribution = field(default_factory=lambda: Distribution.of(_REAL_TIME_FACTORS))

    def add(self, figures: SpeechFigures) -> None:
        """Count an ended request."""
        self.num_characters += figures.num_characters
        self.audio_seconds += figures.audio_seconds
        if figures.first_audio_seconds is not None:
            self.first_audio.add(figures.first_audio_seconds)
        if figures.audio_seconds:
            self.real_time_factor.add(figures.computing_seconds / figures.audio_seconds)


@dataclass(slots=True)
class HttpRequestCounts:
    """HTTP requests that were stopped or denied, and speech. Event-loop thread only.

    `guardrails` counts by verdict, `denials` by error code, `speech` by model.
    """

    num_disconnects: int = 0
    num_deadlines: int = 0
    guardrails: Counter[str] = field(default_factory=Counter)
    denials: Counter[str] = field(default_factory=Counter)
    speech: dict[str, SpeechTotals] = field(default_factory=dict)

    def record(self, request: HttpRecord) -> None:
        """Count an ended request."""
        self.num_disconnects += request.stop_cause == "disconnected"
        self.num_deadlines += request.stop_cause == "timed_out"
        if request.guardrail is not None:
            self.guardrails[request.guardrail] += 1
        if request.error in _DENIALS:
            self.denials[request.error] += 1
        if request.speech is not None:
            self.speech.setdefault(request.speech.model, SpeechTotals()).add(request.speech)


@dataclass(frozen=True, slots=True, kw_only=True)
class MetricsSnapshot:
    """Everything that one scrape reports.

    `engine` is None while the engine does not answer. `speech` is by model. `routes` counts requests by model
    and result, `rate_limited` refused requests by the limit that they reached, `agents` recently active
    agents by status, None where that is unknown, `agent_turns` open turns of agents by state.
    """

    totals: Mapping[str, ModelTotals]
    status: EngineStatus
    num_restarts: int
    http: HttpRequestCounts
    pool: ModelStats
    speech: Mapping[str, SpeechTotals] = field(default_factory=dict)
    rate_limited: Mapping[str, int] = field(default_factory=dict)
    num_audit_dropped: int = 0
    agents: Mapping[AgentStatus, int] | None = None
    agent_turns: Mapping[str, int] = field(default_factory=dict)
    routes: Mapping[tuple[str, RouteResult], int] = field(default_factory=dict)
    models: Sequence[ServedModel] = ()
    fetched_images: FetchTotals = field(default_factory=FetchTotals)
    remotes: Sequence[RemoteServer] = ()
    engine: Stats | None = None


def metric_families(snapshot: MetricsSnapshot) -> "Iterator[Metric]":
    """Return all metrics; those of the engine only if it answered."""
    yield from _requests(snapshot.totals)
    yield from _request_histograms(snapshot.totals)
    yield from _speech(snapshot.speech)
    yield from _server(snapshot)
    yield from _models(snapshot)
    yield from _remotes(snapshot.remotes)
    if snapshot.engine is not None:
        yield from engine_families(snapshot.engine)


def _requests(totals: Mapping[str, ModelTotals]) -> "Iterator[Metric]":
    yield counter(
        "requests",
        "Ended requests by result, finish reason and protocol.",
        {(model, *end): number for model, total in totals.items() for end, number in total.ends.items()},
        *("model", "end", "finish_reason", "protocol"),
    )
    for name, text, attribute in (
        ("prompt_tokens", "Prompt tokens read, cached ones included.", "num_prompt"),
        ("cached_prompt_tokens", "Prompt tokens found in the prefix cache.", "num_cached"),
        ("generated_tokens", "Generated tokens.", "num_generated"),
    ):
        yield counter(name, text, _by_model(totals, attribute), "model")


_REQUEST_HISTOGRAMS = (
    ("time_to_first_token_seconds", "Time from request to first token.", "first_token"),
    ("time_per_output_token_seconds", "Time per output token.", "next_token"),
    ("request_seconds", "Duration of a request.", "whole"),
    ("queue_seconds", "Time in the engine's queue.", "queue"),
    ("prefill_seconds", "Time from leaving the queue to the end of prefill.", "prefill"),
    ("prefill_tokens_per_second", "Computed prompt tokens per second of prefill.", "prefill_speed"),
    ("prompt_tokens_per_request", "Prompt tokens per request.", "prompt_tokens"),
    ("prefix_match_tokens", "Prompt tokens found in the prefix cache, per request.", "match_tokens"),
    ("prefix_match_ratio", "Share of the prompt found in the prefix cache.", "match_ratio"),
    ("vision_seconds", "Time of the vision encoder, for requests with images.", "vision"),
)


def _request_histograms(totals: Mapping[str, ModelTotals]) -> "Iterator[Metric]":
    for name, text, attribute in _REQUEST_HISTOGRAMS:
        yield histogram(name, text, _by_model(totals, attribute), "model")


def _speech(totals: Mapping[str, SpeechTotals]) -> "Iterator[Metric]":
    characters, seconds = _by_model(totals, "num_characters"), _by_model(totals, "audio_seconds")
    yield counter("speech_characters", "Characters of texts to speak.", characters, "model")
    yield counter("speech_audio_seconds", "Seconds of audio that were computed.", seconds, "model")
    yield histogram(
        "speech_first_audio_seconds",
        "Time from request to first audio.",
        _by_model(totals, "first_audio"),
        "model",
    )
    yield histogram(
        "speech_real_time_factor",
        "Time of computing per second of audio.",
        _by_model(totals, "real_time_factor"),
        "model",
    )


def _remotes(remotes: Sequence[RemoteServer]) -> "Iterator[Metric]":
    yield gauge(
        "remote_breaker",
        "1 for the state of a remote's circuit breaker.",
        {
            (each.name, state): int(each.breaker.state == state)
            for each in remotes
            for state in BREAKER_STATES
        },
        *("remote", "state"),
    )
    yield counter(
        "remote_breaker_changes",
        "Changes of a remote's circuit breaker, by new state.",
        {(each.name, state): each.breaker.changes[state] for each in remotes for state in BREAKER_STATES},
        *("remote", "state"),
    )
    yield counter(
        "remote_requests",
        "Requests to a remote by result.",
        {(each.name, result): each.results[result] for each in remotes for result in REMOTE_RESULTS},
        *("remote", "result"),
    )
    yield gauge(
        "remote_open_requests",
        "Open requests to a remote.",
        {each.name: each.num_open for each in remotes},
        "remote",
    )


def _by_model(totals: Mapping[str, Any], attribute: str) -> dict[str, Any]:
    return {model: getattr(total, attribute) for model, total in totals.items()}


def _server(snapshot: MetricsSnapshot) -> "Iterator[Metric]":
    http, fetched = snapshot.http, snapshot.fetched_images
    yield gauge("ready", "1 when requests are accepted.", snapshot.status == "ready")
    yield counter("engine_restarts", "Engine restarts.", snapshot.num_restarts)
    yield counter("disconnects", "Requests whose client left before their end.", http.num_disconnects)
    yield counter("deadlines", "Requests that exceeded the time limit.", http.num_deadlines)
    yield counter("audit_dropped", "Audit records that were lost.", snapshot.num_audit_dropped)
    yield counter("rate_limited", "Requests refused with 429, by limit.", snapshot.rate_limited, "limit")
    yield counter("guardrail_matches", "Requests with a guardrail match.", http.guardrails, "verdict")
    yield counter("denied", "Requests denied for their key or by a policy.", http.denials, "code")
    yield counter("image_fetches", "Images to fetch by URL.", fetched.outcomes, "outcome")
    yield counter("image_fetch_bytes", "Bytes of fetched images.", fetched.num_bytes)
    yield counter("image_fetch_seconds", "Time of fetching images.", fetched.seconds)
    yield gauge(
        "agent_turns",
        "Open turns of agents; a turn waits for the agent's last one.",
        snapshot.agent_turns,
        "state",
    )
    if snapshot.agents is not None:
        yield gauge(
            "agents",
            "Agents of the last hour by status: hot in memory, warm on disk, cold in neither.",
            snapshot.agents,
            "status",
        )


def _models(snapshot: MetricsSnapshot) -> "Iterator[Metric]":
    pool, models = snapshot.pool, snapshot.models
    yield counter("model_loads", "Models loaded after the start.", pool.num_loads)
    yield counter("model_evictions", "Models evicted for others.", pool.num_evictions)
    yield counter("model_swaps", "Loads for which other models were evicted.", pool.num_swaps)
    yield counter(
        "model_routes",
        "Requests by the result of resolving their model; unknown models have no name.",
        snapshot.routes,
        *("model", "result"),
    )
    loaded = {model.name: model.state == "loaded" for model in models}
    healthy = {model.name: model.problem is None for model in models}
    moe = {
        model.name: snapshot.totals[model.name].ends.total()
        for model in models
        if model.name in snapshot.totals and count_experts(text_part(model.facts.config)) is not None
    }
    yield gauge("model_loaded", "1 when the model is in memory.", loaded, "model")
    yield gauge("model_healthy", "0 when the last load failed.", healthy, "model")
    yield counter("moe_requests", "Ended requests to models with a mixture of experts.", moe, "model")
    for name, text, attribute in (
        ("weights_bytes", "Weights of a loaded model.", "weights_bytes"),
        ("kv_bytes_per_token", "KV cache per token of a loaded model.", "kv_bytes_per_token"),
        ("requests", "Requests that use a loaded model.", "num_requests"),
    ):
        values = {memory.name: getattr(memory, attribute) for memory in pool.models}
        yield gauge(f"model_{name}", text, values, "model")
