"""One streamed answer of another server. Event-loop thread only."""

import asyncio
from collections.abc import AsyncIterator

import httpx

from mlxctl.inference.remote.chat_protocol import EventReader
from mlxctl.inference.remote.server_answers import LineReader
from mlxctl.ir import Collector, StreamEvent, TextResult, Usage
from mlxctl.ir.errors import ConnectionLost


class RemoteGeneration:
    """Async iterator over lists of events, one list per network read.

    Implements `AnswerStream`. The last event of the last list is Finished. Raises EngineError when the server
    cannot finish the answer or closes the connection. The holder must `cancel` it at the end: closing the
    connection stops the server.
    """

    def __init__(self, response: httpx.Response, reader: EventReader) -> None:
        self._response = response
        self._reader = reader
        self._batches = self._read()
        self._closing: asyncio.Task[None] | None = None

    def __aiter__(self) -> "RemoteGeneration":
        return self

    async def __anext__(self) -> list[StreamEvent]:
        return await anext(self._batches)

    @property
    def usage(self) -> Usage:
        """Token counts so far, as far as the server has sent them."""
        return self._reader.usage

    async def result(self) -> TextResult:
        """Wait for the end and return the whole answer."""
        collector = Collector()
        async for events in self:
            for event in events:
                collector.add(event)
        return collector.result()

    def cancel(self) -> None:
        """Close the connection in the background, which stops the generation. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(
                self._response.aclose(), name="close-remote-answer"
            )

    async def _read(self) -> AsyncIterator[list[StreamEvent]]:
        lines = LineReader()
        events: list[StreamEvent] = []
        is_over = False
        try:
            async for data in self._response.aiter_bytes():
                events, is_over = self._events(lines.feed(data))
                if is_over:
                    break
                if events:
                    yield events
        except (httpx.HTTPError, httpx.StreamError) as error:
            if isinstance(error, httpx.ReadTimeout):
                raise ConnectionLost("the server was silent for too long during the answer") from None
            raise ConnectionLost(
                f"the server closed the connection during the answer ({type(error).__name__})"
            ) from None
        yield [*(events if is_over else ()), *self._reader.finish()]

    def _events(self, lines: list[bytes]) -> tuple[list[StreamEvent], bool]:
        """Return the events of the lines, and whether the stream ended."""
        events: list[StreamEvent] = []
        for line in lines:
            if line.startswith(b":"):
                events += self._reader.comment(line[1:])
            elif line.startswith(b"data:"):
                data = line[5:].strip()
                if data == b"[DONE]":
                    return events, True
                events += self._reader.data(data)
                if self._reader.is_over:
                    return events, True
        return events, False
