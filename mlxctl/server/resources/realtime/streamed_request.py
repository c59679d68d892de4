"""Requests that a WebSocket makes, with streamed answers.

Event-loop thread only.
"""

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

import msgspec

from mlxctl.server.http.socket_exchange import HttpExchange
from mlxctl.server.http.web_socket import WebSocket

# Events that wait for their reader; the answer waits after that.
_MAX_WAITING = 16

Json = dict[str, Any]
_decode = msgspec.json.Decoder(Json).decode


class RequestFailed(Exception):
    """A request was refused, or its stream has failed.

    `error` is in OpenAI's shape.
    """

    def __init__(self, error: Json) -> None:
        super().__init__(error.get("message"))
        self.error = error


async def stream_events(
    socket: WebSocket, path: str, body: bytes, *, content_type: str = "application/json"
) -> AsyncGenerator[Json, None]:
    """Yield the events of a POST. Raises RequestFailed.

    Closing the iterator ends the request.
    """
    events: asyncio.Queue[bytes | None] = asyncio.Queue(_MAX_WAITING)
    is_over = asyncio.Event()

    async def take(text: bytes) -> None:
        if not is_over.is_set():
            await events.put(text)

    async def run() -> None:
        try:
            exchange = HttpExchange(body, send_text=take, is_over=is_over)
            await socket.post(exchange, path=path, content_type=content_type)
        finally:
            await events.put(None)

    request = asyncio.create_task(run(), name="realtime-request")
    try:
        while (text := await events.get()) is not None:
            event = _decode(text)
            if error := event.get("error"):
                raise RequestFailed(error)
            yield event
    finally:
        is_over.set()
        while not events.empty():
            events.get_nowait()
        await asyncio.wait({request})
