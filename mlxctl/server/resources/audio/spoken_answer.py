"""A speech answer in its own task. Event-loop thread only."""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import aclosing

from mlxctl.ir import SpeechChunk
from mlxctl.ir.speech import FLOAT_BYTES
from mlxctl.server.observe.http_record import SpeechFigures

# Chunks that wait for a client that reads slowly; after that, nothing more is computed.
_MAX_WAITING = 8


class SpokenAnswer:
    """The chunks of one answer, and their figures.

    `cancel` ends the computation; the creator registers it for the end of the request.
    """

    def __init__(self, chunks: AsyncGenerator[SpeechChunk, None], figures: SpeechFigures) -> None:
        self.num_text_tokens = self.num_audio_tokens = 0
        self._figures = figures
        self._waiting: asyncio.Queue[SpeechChunk | None] = asyncio.Queue(_MAX_WAITING)
        self._task = asyncio.create_task(self._take_all(chunks), name="speak")
        # An error after the client has left is not awaited.
        self._task.add_done_callback(lambda task: task.cancelled() or task.exception())

    def cancel(self) -> None:
        """Stop computing. Idempotent."""
        self._task.cancel()

    async def next(self, seconds: float | None = None) -> SpeechChunk | None:
        """Return the next chunk, None at the end.

        Raises what computing raises, and TimeoutError after `seconds`.
        """
        async with asyncio.timeout(seconds):
            chunk = await self._waiting.get()
        if chunk is None:
            await self._task
        return chunk

    async def _take_all(self, chunks: AsyncGenerator[SpeechChunk, None]) -> None:
        """Move the chunks to the queue; the last entry is None."""
        started = time.monotonic()
        try:
            async with aclosing(chunks):
                async for chunk in chunks:
                    self._count(chunk, time.monotonic() - started)
                    waited = time.monotonic()
                    await self._waiting.put(chunk)
                    # The time that a slow client takes is none of the model's.
                    started += time.monotonic() - waited
        finally:
            # After a cancellation nothing reads any more.
            if not self._task.cancelling():
                await self._waiting.put(None)

    def _count(self, chunk: SpeechChunk, seconds: float) -> None:
        self.num_text_tokens += chunk.num_text_tokens
        self.num_audio_tokens += chunk.num_audio_tokens
        figures = self._figures
        if chunk.samples and figures.first_audio_seconds is None:
            figures.first_audio_seconds = seconds
        figures.audio_seconds += len(chunk.samples) / FLOAT_BYTES / chunk.sample_rate
        figures.computing_seconds = seconds
