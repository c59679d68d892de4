"""One HTTP request: what it asks for, and how it ended."""

import time
from collections.abc import Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mlxctl.inference.request_record import RequestRecord


@dataclass(slots=True, kw_only=True, eq=False)
class SpeechFigures:
    """What one speech request took, and what it got so far.

    `model` is the model's own name. `computing_seconds` end with the last audio, without waits for the
    client.
    """

    model: str
    num_characters: int
    audio_seconds: float = 0.0
    computing_seconds: float = 0.0
    first_audio_seconds: float | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class HttpRecord(RequestRecord):
    """The record of one HTTP request.

    Event-loop thread only, until it has ended. `route` is the route's template, empty for a path without a
    route. `caller` is the key's name, empty without a key. `status` is 0 until the response begins.
    `traceparent` and `tracestate` are the W3C trace context for requests to other servers; `span` is the
    request's own where traces are exported. `speech` is None for other requests.
    """

    method: str = ""
    path: str = ""
    route: str = ""
    caller: str = ""
    remote: str = ""
    started_at: float = field(default_factory=time.time)
    duration_seconds: float = 0.0
    status: int = 0
    streams: bool = False
    traceparent: str | None = None
    tracestate: str | None = None
    span: Any = None
    speech: SpeechFigures | None = None

    @property
    def trace_id(self) -> str | None:
        """Trace id of the W3C trace context."""
        return None if self.traceparent is None else self.traceparent.split("-")[1]

    @property
    def trace_headers(self) -> Mapping[str, str]:
        """The headers that carry the trace context to another server."""
        if self.traceparent is None:
            return {}
        headers = {"traceparent": self.traceparent}
        return headers if self.tracestate is None else headers | {"tracestate": self.tracestate}

    @property
    def was_disconnected(self) -> bool:
        """Whether the client left before the end."""
        return self.stop_cause == "disconnected"


logged_request: ContextVar[HttpRecord | None] = ContextVar("logged_request", default=None)
"""The request whose ids log lines of this task get; nothing else reads it."""
