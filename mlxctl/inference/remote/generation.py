"""One answer on its way from another server. Event-loop thread only."""

import asyncio
from collections.abc import AsyncIterator

import httpx

from mlxctl.errors import ConnectionLost
from mlxctl.inference.remote.chunks import ChunkReader
from mlxctl.inference.remote.lines import LineReader
from mlxctl.ir import Collector, StreamEvent, TextResult


class RemoteGeneration:
    """An async iterator over lists of events, as `Generation` is; everything that one read of the network
    brought is one list.

    The last event of the last list is Finished. Raises EngineError when the server cannot finish it or goes
    away. Whoever holds it must `cancel` it when done with it, however that came about; leaving is what tells
    the server.
    """

    def __init__(self, response: httpx.Response) -> None:
        self._response = response
        self._reader = ChunkReader()
        self._batches = self._read()
        self._closing: asyncio.Task[None] | None = None

    def __aiter__(self) -> "RemoteGeneration":
        return self

    async def __anext__(self) -> list[StreamEvent]:
        return await anext(self._batches)

    async def result(self) -> TextResult:
        """Wait for the end and return the whole answer."""
        collector = Collector()
        async for events in self:
            for event in events:
                collector.add(event)
        return collector.result()

    def cancel(self) -> None:
        """Leave: the server notices and frees the sequence.

        Idempotent; the connection closes in the background.
        """
        if self._closing is None:
            self._closing = asyncio.get_running_loop().create_task(
                self._response.aclose(), name="leave-remote-answer"
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
            raise ConnectionLost(f"the server went away in mid-answer ({type(error).__name__})") from None
        yield [*(events if is_over else ()), *self._reader.finish()]

    def _events(self, lines: list[bytes]) -> tuple[list[StreamEvent], bool]:
        """Return what the lines say, and whether the stream said that it is over."""
        events: list[StreamEvent] = []
        for line in lines:
            if line.startswith(b":"):
                events += self._reader.comment(line[1:])
            elif line.startswith(b"data:"):
                data = line[5:].strip()
                if data == b"[DONE]":
                    return events, True
                events += self._reader.data(data)
        return events, False
