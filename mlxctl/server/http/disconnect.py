"""Disconnect detection: cancels a request whose client has disconnected.

Falcon reads the connection only while it reads the body, and Granian reports a disconnect only to a waiting
reader. So once the body is complete, a watcher reads on; when the client disconnects, it cancels the task
that answers the request, wherever that waits.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from typing import Any

from mlxctl.ir.errors import BodyTooSlow, InvalidRequest

Scope = dict[str, Any]
Event = Mapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_AT_END = "mlxctl.at_end"
_CONNECTION = "mlxctl.connection"


def call_at_end(scope: Scope, callback: Callable[[], object]) -> None:
    """Call `callback` when the request of `scope` ends.

    However it ends; the callback must not raise. The last registered one is called first.
    """
    scope[_AT_END].append(callback)


def call_on_disconnect(scope: Scope, callback: Callable[[], object]) -> None:
    """Call `callback` when the client leaves, before its task is cancelled."""
    connection: _HttpConnection = scope[_CONNECTION]
    connection.on_disconnect = callback


def client_has_left(scope: Scope) -> bool:
    """Whether the client of a request left before its end."""
    connection: _HttpConnection = scope[_CONNECTION]
    return connection.has_ended


def has_unread_body(scope: Scope) -> bool:
    """Whether the body of a request was not read to its end."""
    connection: _HttpConnection = scope[_CONNECTION]
    return connection.has_unread_body


class BrokenStream(Exception):
    """Ends an answer that cannot be finished; its cause is logged.

    The connection ends without the last chunk, which tells the client.
    """


class DisconnectWatch:
    """ASGI wrapper that cancels the application's task on disconnect.

    Runs `call_at_end` callbacks, and ends an answer that raises BrokenStream. Reading a body raises
    BodyTooSlow after `body_seconds`, and InvalidRequest if it ends early.
    """

    def __init__(self, application: Application, *, body_seconds: float) -> None:
        self.application = application
        self._body_seconds = body_seconds

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self.application(scope, receive, send)
            return
        callbacks: list[Callable[[], object]] = []
        scope[_AT_END] = callbacks
        # NOTE: ASGI headers may be one-shot iterables; the application reads them too.
        scope["headers"] = [tuple(header) for header in scope["headers"]]
        # NOTE: Granian writes "1" for HTTP/1.0, which Falcon refuses.
        scope["http_version"] = {"1": "1.0"}.get(scope["http_version"], scope["http_version"])
        connection = _HttpConnection(receive, _DeclaredBody.of(scope), seconds=self._body_seconds)
        scope[_CONNECTION] = connection
        try:
            await self.application(scope, connection.receive, send)
        except asyncio.CancelledError:
            if not connection.has_ended:
                raise
        except BrokenStream:
            pass
        finally:
            connection.stop_watching()
            for callback in reversed(callbacks):
                callback()


@dataclass(frozen=True, slots=True)
class _DeclaredBody:
    """The body as its headers declare it.

    `num_bytes` is None if they give no length.
    """

    is_there: bool
    num_bytes: int | None

    @classmethod
    def of(cls, scope: Scope) -> "_DeclaredBody":
        """Return how the headers declare the body."""
        num_bytes, is_chunked = None, False
        for name, value in scope["headers"]:
            if name == b"content-length" and value.isdigit():
                num_bytes = int(value)
            is_chunked = is_chunked or name == b"transfer-encoding"
        return cls(is_chunked or bool(num_bytes), num_bytes)


class _HttpConnection:
    """The receiving side of one request.

    Passes the body on, then waits for the disconnect.
    """

    def __init__(self, receive: Receive, announced: _DeclaredBody, *, seconds: float) -> None:
        self.has_ended = False
        self.has_unread_body = announced.is_there
        self.on_disconnect: Callable[[], object] = lambda: None
        self._receive = receive
        # NOTE: Falcon asks for a first event where it cannot answer with an error, before it knows route and
        # caller.
        self._is_first = announced.is_there
        self._num_bytes_left = announced.num_bytes
        self._seconds = seconds
        self._seconds_left = seconds
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None

    async def receive(self) -> Event:
        """Return the next event; after the body, wait for the disconnect."""
        if self._watcher is not None:
            await asyncio.shield(self._watcher)
            return {"type": "http.disconnect"}
        if self._is_first:
            self._is_first = False
            return {"type": "http.request", "body": b"", "more_body": True}
        event = await self._next()
        if event["type"] == "http.request" and self._is_last(event):
            self.has_unread_body = False
            self._watcher = asyncio.create_task(self._watch())
        return event

    async def _next(self) -> Event:
        # Only the client's time counts, not that in which the server does not read.
        time = asyncio.get_running_loop().time
        started = time()
        try:
            async with asyncio.timeout_at(started + self._seconds_left) as limit:
                event = await self._receive()
        except TimeoutError:
            if not limit.expired():
                raise
            raise BodyTooSlow(
                f"the request body did not arrive within {self._seconds:g} seconds; send it at once"
            ) from None
        self._seconds_left -= time() - started
        if event["type"] == "http.disconnect":
            raise InvalidRequest(
                "the request body broke off: its chunks are malformed, or it is shorter than announced"
            )
        return event

    def stop_watching(self) -> None:
        """Stop reacting to a disconnect, since the request has ended."""
        if self._watcher is not None:
            self._watcher.cancel()

    def _is_last(self, event: Event) -> bool:
        # NOTE: a reader that knows the length stops there and never fetches the empty event that ends the
        # body.
        if self._num_bytes_left is not None:
            self._num_bytes_left -= len(event.get("body", b""))
        return not event.get("more_body", False) or (
            self._num_bytes_left is not None and self._num_bytes_left <= 0
        )

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.has_ended = True
        self.on_disconnect()
        assert self._task is not None, "an ASGI application runs in a task"
        self._task.cancel("the client left")
