"""Notice a client that leaves, and end its request there and then.

Falcon reads the connection only while it reads the body, and the server only reports a departure to whoever listens. So once the
body is in, a watcher listens; when the client goes, the task that answers it is cancelled, wherever it waits: in the queue, for
the model, or for the socket.
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

Scope = dict[str, Any]
Event = Mapping[str, Any]
Receive = Callable[[], Awaitable[Event]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
Application = Callable[[Scope, Receive, Send], Awaitable[None]]

_AT_END = "mlxctl.at_end"


def call_at_end(scope: Scope, callback: Callable[[], None]) -> None:
    """Have `callback` called when the request of `scope` is over, however it ends. It must not raise."""
    scope[_AT_END].append(callback)


class DisconnectWatch:
    """ASGI wrapper: cancels the application's task when its client leaves, and keeps the promises of `call_at_end`."""

    def __init__(self, application: Application) -> None:
        self._application = application

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._application(scope, receive, send)
            return
        callbacks: list[Callable[[], None]] = []
        scope[_AT_END] = callbacks
        connection = _Connection(receive, content_length=_content_length(scope))
        try:
            await self._application(scope, connection.receive, send)
        except asyncio.CancelledError:
            if not connection.is_lost:
                raise
        finally:
            connection.stop_watching()
            for callback in callbacks:
                callback()


class _Connection:
    """The receiving side of one request: passes the body on, then watches for the end."""

    def __init__(self, receive: Receive, *, content_length: int | None) -> None:
        self.is_lost = False
        self._receive = receive
        self._num_bytes_left = content_length
        self._task = asyncio.current_task()
        self._watcher: asyncio.Task[None] | None = None

    async def receive(self) -> Event:
        """Return the next event; after the body, only the client's departure is left to wait for."""
        if self._watcher is not None:
            await asyncio.shield(self._watcher)
            return {"type": "http.disconnect"}
        event = await self._receive()
        if event["type"] == "http.request" and self._is_last(event):
            self._watcher = asyncio.create_task(self._watch())
        return event

    def stop_watching(self) -> None:
        """The request is over: from now on the client may come and go."""
        if self._watcher is not None:
            self._watcher.cancel()

    def _is_last(self, event: Event) -> bool:
        # NOTE: a reader that knows the length stops there and never fetches the empty event that ends the body.
        if self._num_bytes_left is not None:
            self._num_bytes_left -= len(event.get("body", b""))
        return not event.get("more_body", False) or (self._num_bytes_left is not None and self._num_bytes_left <= 0)

    async def _watch(self) -> None:
        while (await self._receive())["type"] != "http.disconnect":
            pass
        self.is_lost = True
        assert self._task is not None, "an ASGI application runs in a task"
        self._task.cancel("the client left")


def _content_length(scope: Scope) -> int | None:
    """Return the announced length of the body; None when there is none or it makes no sense."""
    # NOTE: ASGI promises iterables, which may be read once only; the application wants to read them, too.
    scope["headers"] = [tuple(header) for header in scope["headers"]]
    for name, value in scope["headers"]:
        if name == b"content-length" and value.isdigit():
            return int(value)
    return None
