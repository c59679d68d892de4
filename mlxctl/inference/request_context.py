"""The HTTP request that the current task answers: identity, outcome and generations."""

import time
from collections.abc import Awaitable, Callable
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

from mlxctl.inference.request_entry import RequestEntry, StopCause
from mlxctl.inference.text_rules import TextRules
from mlxctl.ir.errors import KeyRevoked
from mlxctl.ir.timed_phases import Phase

MAX_ENTRIES = 256
"""Number of generations of one request whose figures are recorded."""
_MAX_NAME_CHARS = 128


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptFacts:
    """A prepared prompt, without its content; None where it is not known.

    `sha256` is the digest of its text as the model reads it.
    """

    num_tokens: int | None = None
    tools: tuple[str, ...] = ()
    sha256: str | None = None


@dataclass(slots=True, kw_only=True, eq=False)
class RequestContext:
    """One HTTP request. Event-loop thread only, until it has ended.

    `route` is the route's template, empty for a path without a route. `model` is the model that the request
    names, None until it is read. `caller` is the key's name, empty without a key. `status` is 0 until the
    response begins; `error` is the code of the error that ended the request. `review` checks model and prompt
    before they reach the engine. `text_rules` returns the rules in force for the texts that a model reads and
    writes. `reserve` counts bytes that the request holds besides its body. With
    `keeps_content` the prompts and answers of its `entries` are recorded. `traceparent` and
    `tracestate` are the W3C trace context for requests to other servers; `span` is the request's own where
    traces are exported. `phases` are its timed parts, None where they are not recorded.
    """

    request_id: str
    method: str = ""
    path: str = ""
    route: str = ""
    protocol: str | None = None
    model: str | None = None
    caller: str = ""
    remote: str = ""
    started_at: float = field(default_factory=time.time)
    duration_seconds: float = 0.0
    status: int = 0
    streams: bool = False
    error: str | None = None
    stop_cause: StopCause = "stopped"
    keeps_content: bool = False
    is_revoked: bool = False
    guardrail: str | None = None
    review: Callable[[str, PromptFacts], Awaitable[None]] | None = None
    text_rules: Callable[[], TextRules] | None = None
    reserve: Callable[[int], None] | None = None
    traceparent: str | None = None
    tracestate: str | None = None
    span: Any = None
    phases: list[Phase] | None = None
    entries: list[RequestEntry] = field(default_factory=list)

    def add(self, entry: RequestEntry) -> None:
        """Add a generation; it takes over the request's identity."""
        entry.request_id, entry.protocol, entry.stop_cause = self.request_id, self.protocol, self.stop_cause
        if self.phases is not None:
            entry.slices, entry.interruptions = [], []
        if len(self.entries) < MAX_ENTRIES:
            self.entries.append(entry)

    def mark_stopped(self, cause: StopCause) -> None:
        """Record why the request is stopped, before its generations are cancelled."""
        self.stop_cause = cause
        for entry in self.entries:
            entry.stop_cause = cause

    def record_guardrail(self, verdict: str) -> None:
        """Record what a guardrail did; a refusal counts most."""
        if self.guardrail != "refused":
            self.guardrail = verdict

    def revoke(self) -> None:
        """End the request: the key of its caller is no longer valid."""
        self.is_revoked = True
        for entry in self.entries:
            entry.cancel(KeyRevoked())

    def check_key(self) -> None:
        """Raise KeyRevoked if the key was revoked meanwhile."""
        if self.is_revoked:
            raise KeyRevoked

    @property
    def trace_id(self) -> str | None:
        """Trace id of the W3C trace context."""
        return None if self.traceparent is None else self.traceparent.split("-")[1]

    @property
    def was_disconnected(self) -> bool:
        """Whether the client left before the end."""
        return self.stop_cause == "disconnected"


current_request: ContextVar[RequestContext | None] = ContextVar("current_request", default=None)
"""The request that this task answers; None outside of requests."""


def record_model(name: str) -> None:
    """Record the model that the current request names."""
    if (context := current_request.get()) is not None:
        context.model = name[:_MAX_NAME_CHARS]


def trace_headers() -> dict[str, str]:
    """Return the headers that carry the trace context to another server."""
    request = current_request.get()
    if request is None or request.traceparent is None:
        return {}
    headers = {"traceparent": request.traceparent}
    return headers if request.tracestate is None else headers | {"tracestate": request.tracestate}
