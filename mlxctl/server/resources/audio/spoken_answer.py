"""A speech answer, awaited chunk by chunk for limited times.

Event-loop thread only.
"""

import asyncio
import time
from collections.abc import AsyncGenerator
from contextlib import suppress

from mlxctl.ir import SpeechChunk
from mlxctl.ir.speech import FLOAT_BYTES
from mlxctl.server.observe.http_record import SpeechFigures


class SpokenAnswer:
    """The chunks of one answer, and their figures.

    `close` ends the computation; the creator registers it for the end of the request.
    """

    def __init__(self, chunks: AsyncGenerator[SpeechChunk, None], figures: SpeechFigures) -> None:
        self.num_text_tokens = self.num_audio_tokens = 0
        self._chunks = chunks
        self._figures = figures
        self._next: asyncio.Task[SpeechChunk | None] | None = None
        self._closing: asyncio.Task[None] | None = None

    async def next(self, seconds: float | None = None) -> SpeechChunk | None:
        """Return the next chunk, None at the end.

        Raises what computing raises, and TimeoutError after `seconds`.
        """
        if self._next is None:
            self._next = asyncio.create_task(self._read(), name="speak")
        started = time.monotonic()
        await asyncio.wait({self._next}, timeout=seconds)
        self._figures.computing_seconds += time.monotonic() - started
        if not self._next.done():
            raise TimeoutError
        task, self._next = self._next, None
        chunk = task.result()
        if chunk is not None:
            self._count(chunk)
        return chunk

    def close(self) -> None:
        """Stop computing in the background. Idempotent."""
        if self._closing is None:
            self._closing = asyncio.create_task(self._close(), name="stop-speaking")

    async def _close(self) -> None:
        if self._next is not None:
            self._next.cancel()
            with suppress(asyncio.CancelledError, Exception):
                await self._next
        await self._chunks.aclose()

    async def _read(self) -> SpeechChunk | None:
        return await anext(self._chunks, None)

    def _count(self, chunk: SpeechChunk) -> None:
        self.num_text_tokens += chunk.num_text_tokens
        self.num_audio_tokens += chunk.num_audio_tokens
        figures = self._figures
        if chunk.samples and figures.first_audio_seconds is None:
            figures.first_audio_seconds = figures.computing_seconds
        figures.audio_seconds += len(chunk.samples) / FLOAT_BYTES / chunk.sample_rate
