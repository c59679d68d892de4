"""Records each request and how it ended.

For logs, metrics and the audit log.
"""

import re
import time
from collections.abc import Callable, Iterable, Mapping

from falcon.asgi import Request, Response

from mlxctl.server.http.disconnect import Scope, call_at_end, call_on_disconnect, client_has_left
from mlxctl.server.observe.http_record import HttpRecord, logged_request
from mlxctl.server.observe.tracing import RequestTracing

# Version, trace id, parent span id, flags. All-zero ids and version ff are invalid.
_TRACEPARENT = re.compile(
    r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)
_MAX_TRACEPARENT_CHARS = 256
CLIENT_CLOSED_REQUEST = 499
"""Status, as nginx logs it, of a request whose client left before the response began."""


class RequestRecording:
    """Begins the HttpRecord and hands ended requests to all `recorders`.

    `protocols` are the vendors of the routes. With `keeps_content` the generations keep prompt and answer
    until then. With `tracing` each request has a trace span, named by the answer's `traceparent`.
    """

    def __init__(
        self,
        recorders: Iterable[Callable[[HttpRecord], None]],
        protocols: Mapping[str, str],
        *,
        keeps_content: bool,
        tracing: RequestTracing | None = None,
    ) -> None:
        self._recorders = tuple(recorders)
        self._protocols = protocols
        self._keeps_content = keeps_content
        self._tracing = tracing

    async def process_request(self, request: Request, response: Response) -> None:
        """Begin the record of a request.

        It ends after everything else that ends with the request.
        """
        context = HttpRecord(
            request_id=request.context.request_id,
            method=request.method,
            path=request.path,
            remote=request.remote_addr or "",
            traceparent=valid_traceparent(request.get_header("traceparent")),
            keeps_content=self._keeps_content,
        )
        if self._tracing is not None:
            self._tracing.start(context, request.get_header("tracestate"))
            if context.traceparent is not None:
                response.set_header("traceparent", context.traceparent)
        request.context.record = context
        logged_request.set(context)
        call_on_disconnect(request.scope, lambda: context.mark_stopped("disconnected"))
        started = time.monotonic()
        call_at_end(request.scope, lambda: self._end(context, started, request.scope))

    async def process_resource(self, request: Request, *_: object) -> None:
        """Add route, protocol and caller."""
        context: HttpRecord = request.context.record
        context.route = request.uri_template or ""
        context.protocol = self._protocols.get(context.route)
        context.caller = request.context.identity.name

    async def process_response(self, request: Request, response: Response, _: object, __: bool) -> None:
        """Add the status to the record."""
        context: HttpRecord | None = getattr(request.context, "record", None)
        if context is not None:
            context.status = response.status_code
            context.streams = response.stream is not None

    def _end(self, context: HttpRecord, started: float, scope: Scope) -> None:
        context.duration_seconds = time.monotonic() - started
        if not context.status:
            # The watch of a request without a body begins before its context is there.
            if client_has_left(scope):
                context.mark_stopped("disconnected")
            context.status = CLIENT_CLOSED_REQUEST if context.was_disconnected else 500
        for record in self._recorders:
            record(context)
        for entry in context.entries:
            entry.content = None


def valid_traceparent(traceparent: str | None) -> str | None:
    """Return the header without spaces around it; None for an invalid one."""
    if traceparent is None or len(traceparent) > _MAX_TRACEPARENT_CHARS:
        return None
    traceparent = traceparent.strip()
    return traceparent if _TRACEPARENT.fullmatch(traceparent) else None
