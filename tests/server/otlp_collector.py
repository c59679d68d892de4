"""A collector in the shape of OpenTelemetry's, for OTLP over HTTP."""

from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from tests.http_double import running


class OtlpCollector(ThreadingHTTPServer):
    """Keeps the spans that it gets, and the attributes of their resources."""

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.spans: list[Any] = []
        self.resources: list[dict[str, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def of_trace(self, trace_id: str) -> dict[str, Any]:
        """Return the spans of a trace by name."""
        return {span.name: span for span in list(self.spans) if span.trace_id.hex() == trace_id}


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, OtlpCollector)
        body = self.rfile.read(int(self.headers["content-length"]))
        export = ExportTraceServiceRequest.FromString(body)
        assert self.path == "/v1/traces"
        assert self.headers["x-collector-key"] == "open"
        for resource in export.resource_spans:
            server.resources.append(attributes(resource.resource))
            for scope in resource.scope_spans:
                server.spans.extend(scope.spans)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *arguments: object) -> None:
        pass


def attributes(message: Any) -> dict[str, Any]:
    """Return the attributes of a span, an event or a resource."""
    return {each.key: _value(each.value) for each in message.attributes}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return (
        [_value(item) for item in value.array_value.values] if kind == "array_value" else getattr(value, kind)
    )


@contextmanager
def otlp_collector() -> Iterator[OtlpCollector]:
    """Yield a running collector."""
    with running(OtlpCollector()) as server:
        yield server
