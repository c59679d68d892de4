"""One request of a WebSocket, and its answer as messages.

Event-loop thread only.
"""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import msgspec

from mlxctl.server.http.disconnect import Event

_OK = 200
_DATA, _END = b"data: ", b"data: [DONE]"


class HttpExchange:
    """The ASGI channels of one request with `body`.

    Events of its stream, or its error, become messages for `send_text`.
    """

    def __init__(
        self,
        body: bytes,
        *,
        send_text: Callable[[bytes], Awaitable[None]] | None = None,
        is_over: asyncio.Event | None = None,
    ) -> None:
        self.started: dict[str, Any] = {}
        self.num_bytes = len(body)
        self._body: bytes | None = body
        self._send_text = send_text
        self._is_over = is_over or asyncio.Event()
        self._retry_after: str | None = None
        self.received = b""

    @property
    def status(self) -> int:
        """The status of the answer, 0 before it starts."""
        return int(self.started.get("status", 0))

    async def receive(self) -> Event:
        """Return the body, then the disconnect when the WebSocket ends."""
        if self._body is not None:
            body, self._body = self._body, None
            return {"type": "http.request", "body": body, "more_body": False}
        await self._is_over.wait()
        return {"type": "http.disconnect"}

    async def send(self, event: dict[str, Any]) -> None:
        """Take a part of the answer."""
        if event["type"] == "http.response.start":
            self.started = event
            seconds = dict(event.get("headers", ())).get(b"retry-after")
            self._retry_after = None if seconds is None else seconds.decode()
            return
        self.received += event.get("body", b"")
        if self._send_text is None:
            return
        if self.status != _OK:
            if not event.get("more_body"):
                await self._send_text(error_message(self.status, self.received, self._retry_after))
            return
        *whole, self.received = self.received.split(b"\n\n")
        for part in whole:
            for line in part.splitlines():
                if line.startswith(_DATA) and line != _END:
                    await self._send_text(line.removeprefix(_DATA))


def error_message(status: int, body: bytes, retry_after: str | None = None) -> bytes:
    """Return the message for an error answer; its code is never null."""
    error = msgspec.json.decode(body)["error"]
    error["code"] = error["code"] or error["type"]
    if retry_after is not None:
        error["headers"] = {"retry-after": retry_after}
    return msgspec.json.encode({"type": "error", "status": status, "error": error})
