"""One answer of a remote, counted like a local one.

Event-loop thread only.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING

from mlxctl.inference.generation import collect
from mlxctl.inference.request_entry import RequestEntry
from mlxctl.ir import (
    Finished,
    PromptProgress,
    StreamEvent,
    TextDelta,
    TextResult,
    ThinkingDelta,
    ToolArgumentsDelta,
    Usage,
)
from mlxctl.ir.errors import MlxctlError, SequenceFailed

if TYPE_CHECKING:
    from mlxctl.inference.remote import RemoteGeneration

_log = logging.getLogger(__name__)

# A client that does not read stops the reader, and by TCP the remote.
_MAX_QUEUED = 16


class SentContent:
    """What a remote got and answered; implements `RequestContent`."""

    def __init__(self, body: bytes) -> None:
        self._body = body
        self._texts: list[str] = []

    def add(self, text: str) -> None:
        """Add text of the answer: visible, thinking or arguments."""
        self._texts.append(text)

    def prompt(self) -> bytes:
        """Return the body."""
        return self._body

    def answer(self) -> bytes:
        """Return all texts in order."""
        return "".join(self._texts).encode()


class RemoteAnswer:
    """Async iterator over lists of events; implements `OpenAnswer`.

    `first` are the events that have come. `translate` returns the caller's error for one of the remote.
    `on_end` gets the error that ended it, None without one.
    """

    def __init__(
        self,
        generation: "RemoteGeneration",
        first: list[StreamEvent],
        entry: RequestEntry,
        *,
        translate: Callable[[MlxctlError], MlxctlError],
        on_end: Callable[[MlxctlError | None], None],
    ) -> None:
        self._generation = generation
        self._entry = entry
        self._translate = translate
        self._on_end = on_end
        self._is_over = False
        self._num_deltas = 0
        self._events: asyncio.Queue[list[StreamEvent] | MlxctlError] = asyncio.Queue(_MAX_QUEUED)
        self._events.put_nowait(first)
        self._reader = asyncio.create_task(self._read(first), name="read-remote-answer")
        entry.on_cancel = self._abort

    def __aiter__(self) -> "RemoteAnswer":
        return self

    async def __anext__(self) -> list[StreamEvent]:
        if self._is_over:
            raise StopAsyncIteration
        found = await self._events.get()
        if isinstance(found, MlxctlError):
            self._close(found)
            self._entry.fail(found)
            raise found
        return self._counted(found)

    @property
    def prompt_usage(self) -> Usage:
        """Token counts of the prompt, zeros until the remote sends them."""
        return replace(self._generation.usage, num_completion_tokens=0, num_thinking_tokens=0)

    @property
    def usage(self) -> Usage:
        """Token counts so far.

        A remote that sends none counts as one that has a token in each piece.
        """
        usage = self._generation.usage
        return replace(usage, num_completion_tokens=usage.num_completion_tokens or self._num_deltas)

    async def result(self) -> TextResult:
        """Wait for the end and return the whole answer."""
        return await collect(self, self._entry)

    def nudge(self) -> None:
        """Wake the waiting iteration.

        It gets an empty list if there is no event.
        """
        if self._events.empty():
            self._events.put_nowait([])

    def refuse(self) -> None:
        """Stop the remote: a guardrail ends the answer."""
        if not self._is_over:
            self._count_tokens(self.usage)
            self._close(None)
            self._entry.refuse()

    def cancel(self) -> None:
        """Stop the remote if it still answers. Idempotent."""
        self._close(None)
        self._entry.end("stopped")

    def _abort(self, error: MlxctlError) -> None:
        self._reader.cancel()
        while not self._events.empty():
            self._events.get_nowait()
        self._events.put_nowait(error)

    def _close(self, error: MlxctlError | None) -> None:
        if not self._is_over:
            self._is_over = True
            self._reader.cancel()
            self._generation.cancel()
            self._on_end(error)

    async def _read(self, first: list[StreamEvent]) -> None:
        try:
            if not (first and isinstance(first[-1], Finished)):
                async for events in self._generation:
                    await self._events.put(events)
        except MlxctlError as error:
            await self._events.put(self._translate(error))
        except Exception:
            # Otherwise the holder would wait for ever.
            _log.exception("the answer of a remote was not read")
            await self._events.put(SequenceFailed("the server failed unexpectedly; its log says why"))

    def _counted(self, events: list[StreamEvent]) -> list[StreamEvent]:
        """Count events, and return them with a usage."""
        num_before = self._num_deltas
        for event in events:
            match event:
                case PromptProgress():
                    self._entry.num_prompt = event.num_prompt_tokens
                    self._entry.prefilled(event.num_processed, event.num_cached)
                case TextDelta() | ThinkingDelta() | ToolArgumentsDelta():
                    self._num_deltas += 1
                    if isinstance(content := self._entry.content, SentContent):
                        content.add(event.json if isinstance(event, ToolArgumentsDelta) else event.text)
        if self._num_deltas > num_before:
            self._entry.generated(self._num_deltas - num_before)
        if not events or not isinstance(finished := events[-1], Finished):
            return events
        self._count_tokens(self.usage)
        self._close(None)
        events = [*events[:-1], replace(finished, usage=self.usage)]
        self._entry.finish(events)
        return events

    def _count_tokens(self, usage: Usage) -> None:
        entry = self._entry
        entry.num_prompt = entry.num_prefilled = usage.num_prompt_tokens
        entry.num_cached, entry.num_generated = usage.num_cached_tokens, usage.num_completion_tokens
