"""Trace spans of requests, exported over OTLP; needs the extra `otel`.

A request has the spans `parse`, `template`, `tokenize` and `format`, and where they apply `guardrails`,
`model_load`, `images` and `policy`. Each of its generations has `prepare`, `queue`, `prefix_cache.lookup`,
`prefill` and `decode`. They are made when the request has ended, from measured times.
"""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from mlxctl import __version__
from mlxctl.inference.request_entry import RequestEntry
from mlxctl.ir.errors import SettingsError, UsageError
from mlxctl.ir.host_names import is_http_url, without_credentials
from mlxctl.ir.timed_phases import recorded_phases
from mlxctl.server.observe.access_log import finish_reason
from mlxctl.server.observe.http_record import HttpRecord
from mlxctl.state.installed import missing_for
from mlxctl.state.settings import TelemetrySettings

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.sdk.trace import ReadableSpan
    from opentelemetry.trace import Span, Tracer

_log = logging.getLogger(__name__)

_TRACES_PATH = "/v1/traces"
_EXPORT_SECONDS = 3.0
_MAX_TRACESTATE_CHARS = 512
_PROVIDER = "mlxctl"
# OpenTelemetry's semantic conventions for generative AI, still in development: operations by route.
_OPERATIONS = (
    ("/chat/completions", "chat"),
    ("/messages", "chat"),
    ("/responses", "chat"),
    ("/chat", "chat"),
    ("/completions", "text_completion"),
    ("/completion", "text_completion"),
    ("/embeddings", "embeddings"),
    ("/embed", "embeddings"),
)
_OTHER_OPERATION = "generate_content"

SpanEvent = tuple[str, float, dict[str, Any]]
"""Name, unix time and attributes of an event of a span."""


class RequestTracing:
    """Starts and ends the spans of requests. Event-loop thread only.

    Finished spans are exported in batches by a thread; while the collector does not answer they are dropped.
    Raises SettingsError for an endpoint that is no URL, and for missing packages.
    """

    def __init__(self, settings: TelemetrySettings) -> None:
        assert settings.otlp_endpoint is not None, "only created with an endpoint"
        if not is_http_url(settings.otlp_endpoint):
            raise UsageError(
                f"telemetry.otlp_endpoint: {settings.otlp_endpoint!r} is not a URL such as http://127.0.0.1:4318"
            )
        if missing := missing_for("otel"):
            raise SettingsError(f"telemetry.otlp_endpoint needs {missing}")
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.resources import Resource
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult
        from opentelemetry.sdk.trace.sampling import ParentBased, TraceIdRatioBased
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        endpoint = settings.otlp_endpoint.rstrip("/").removesuffix(_TRACES_PATH) + _TRACES_PATH
        self._provider = TracerProvider(
            sampler=ParentBased(TraceIdRatioBased(settings.sample_ratio)),
            resource=Resource.create({"service.name": settings.service_name, "service.version": __version__}),
            shutdown_on_exit=False,
        )
        # These loggers of OpenTelemetry would repeat a failure with each batch.
        logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)

        class Exporter(OTLPSpanExporter):
            """Logs the first failure of several in a row."""

            is_failing = False

            def export(self, spans: "Sequence[ReadableSpan]") -> SpanExportResult:
                result = super().export(spans)
                has_failed = result is not SpanExportResult.SUCCESS
                if has_failed and not self.is_failing:
                    shown = without_credentials(endpoint)
                    _log.error("traces cannot be sent to %s and are dropped until it answers", shown)
                self.is_failing = has_failed
                return result

        exporter = Exporter(endpoint=endpoint, headers=settings.headers, timeout=_EXPORT_SECONDS)
        self._provider.add_span_processor(BatchSpanProcessor(exporter))
        self._tracer: Tracer = self._provider.get_tracer("mlxctl", __version__)
        self._propagator = TraceContextTextMapPropagator()

    def start(self, request: HttpRecord, tracestate: str | None) -> None:
        """Start the span of a request, below that of the caller's `traceparent`.

        Sets the `traceparent` and `tracestate` that requests to other servers carry on.
        """
        from opentelemetry.trace import SpanKind, set_span_in_context

        offered = {"traceparent": request.traceparent or ""}
        if tracestate is not None and len(tracestate) <= _MAX_TRACESTATE_CHARS:
            offered["tracestate"] = tracestate
        span = self._tracer.start_span(
            request.method,
            context=self._propagator.extract(offered),
            kind=SpanKind.SERVER,
            start_time=_nanoseconds(request.started_at),
        )
        own: dict[str, str] = {}
        self._propagator.inject(own, set_span_in_context(span))
        request.span, request.traceparent = span, own.get("traceparent")
        request.tracestate = own.get("tracestate")
        request.phases = [] if span.is_recording() else None
        recorded_phases.set(request.phases)

    def record(self, request: HttpRecord) -> None:
        """End the span of an ended request, with its generations."""
        from opentelemetry.trace import Status, StatusCode, set_span_in_context

        span: Span | None = request.span
        if span is None:
            return
        if span.is_recording():
            span.update_name(f"{request.method} {request.route}".rstrip())
            span.set_attributes(_known(_request_attributes(request)))
            if request.status >= 500:
                span.set_status(Status(StatusCode.ERROR, request.error))
            context = set_span_in_context(span)
            for phase in request.phases or ():
                self._add(phase.name, phase.started, phase.ended, context)
            for entry in request.entries:
                self._record_generation(request, entry, context)
        span.end(end_time=_nanoseconds(request.started_at + request.duration_seconds))

    async def close(self) -> None:
        """Export the last spans, for a moment at most."""
        await asyncio.to_thread(self._provider.shutdown)

    def _record_generation(self, request: HttpRecord, entry: RequestEntry, context: "Context") -> None:
        from opentelemetry.trace import SpanKind, set_span_in_context

        operation = next((name for end, name in _OPERATIONS if request.route.endswith(end)), _OTHER_OPERATION)
        view = entry.view()
        queued = entry.started_at
        admitted = queued + (view.queue_seconds or 0.0)
        prefilled = admitted + (view.prefill_seconds or 0.0)
        ended = queued + view.age_seconds
        span = self._tracer.start_span(
            f"{operation} {entry.model}",
            context=context,
            kind=SpanKind.INTERNAL,
            attributes=_known(_generation_attributes(entry, operation)),
            start_time=_nanoseconds(request.started_at),
        )
        below = set_span_in_context(span)
        self._add("prepare", request.started_at, queued, below)
        if entry.prefill is not None:
            restored = admitted + entry.prefill.restore_seconds
            found = {
                "mlxctl.prefix_cache.hit": view.hit,
                "mlxctl.prefix_cache.tokens": view.num_cached_tokens,
            }
            self._add("queue", queued, admitted, below)
            self._add("prefix_cache.lookup", admitted, restored, below, found)
            slices = [
                ("prefill.slice", min(at, prefilled), {"mlxctl.prefill.tokens": num})
                for at, num in entry.slices or ()
            ]
            self._add(
                "prefill", restored, prefilled, below, {"mlxctl.vision_seconds": view.vision_seconds}, slices
            )
            if view.num_generated_tokens:
                self._add("decode", prefilled, ended, below, events=_interruptions(entry))
        span.end(end_time=_nanoseconds(ended))

    def _add(
        self,
        name: str,
        started: float,
        ended: float,
        context: "Context",
        attributes: Mapping[str, Any] = MappingProxyType({}),
        events: Sequence[SpanEvent] = (),
    ) -> None:
        """Add a span with its events."""
        span = self._tracer.start_span(
            name, context=context, attributes=_known(attributes), start_time=_nanoseconds(started)
        )
        for event, at, details in events:
            span.add_event(event, details, timestamp=_nanoseconds(at))
        span.end(end_time=_nanoseconds(max(started, ended)))


def _interruptions(entry: RequestEntry) -> list[SpanEvent]:
    """Return an event for each interruption and resumption of the answer."""
    return [
        ("scheduler.fairness.resume", at, {})
        if reason is None
        else ("scheduler.fairness.yield", at, {"mlxctl.scheduler.reason": reason})
        for at, reason in entry.interruptions or ()
    ]


def _request_attributes(request: HttpRecord) -> dict[str, Any]:
    return {
        "http.request.method": request.method,
        "http.route": request.route or None,
        "url.path": request.path,
        "http.response.status_code": request.status,
        "client.address": request.remote or None,
        "error.type": request.error,
        "mlxctl.request_id": request.request_id,
        "mlxctl.caller": request.caller or None,
        "mlxctl.protocol": request.protocol,
        "mlxctl.guardrail": request.guardrail,
        "mlxctl.finish_reason": finish_reason(request),
    }


def _generation_attributes(entry: RequestEntry, operation: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": _PROVIDER,
        "gen_ai.request.model": entry.model,
        "gen_ai.response.model": entry.model,
        "gen_ai.response.finish_reasons": [entry.finish_reason] if entry.finish_reason else None,
        "gen_ai.usage.input_tokens": entry.num_prompt,
        "gen_ai.usage.cache_read.input_tokens": entry.num_cached,
        "gen_ai.usage.output_tokens": entry.num_generated,
        "gen_ai.conversation.id": entry.session_id,
        "mlxctl.adapter": entry.adapter,
        "mlxctl.state": entry.state,
    }


def _known(attributes: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in attributes.items() if value is not None}


def _nanoseconds(unix_seconds: float) -> int:
    return int(unix_seconds * 1e9)
