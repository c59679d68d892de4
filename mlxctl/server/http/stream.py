"""An answer as server-sent events, and pings until it starts.

The generation is cancelled when the stream ends, for whatever reason.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol

from mlxctl.inference import Answers
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.deadline import Deadline
from mlxctl.ir.errors import MlxctlError, SequenceFailed
from mlxctl.ir.timed_phases import timed
from mlxctl.protocols import Encoder
from mlxctl.server.http.error_handlers import record_error

_log = logging.getLogger(__name__)


class EndsWithError(Protocol):
    """An encoder whose streams can end with an error."""

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:
        """Return the end of a failed stream."""


async def _store_nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class StartedAnswers:
    """Answers that are being generated, and their encoder.

    `store` is awaited after the last event and before the end is sent.
    """

    answers: Answers
    encoder: Encoder
    store: Callable[[], Awaitable[None]] = _store_nothing

    def cancel(self) -> None:
        """Stop the sequences that still run. Idempotent."""
        self.answers.cancel()


async def stream_answer(
    started: StartedAnswers, call: CallContext, *, ping_interval_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield the chunks of `resp.stream`.

    Events that are ready together become one chunk; an interval without events is followed by a ping. After
    the first byte the status is fixed, so an error becomes an event and ends the stream.
    """
    answers, encoder = started.answers, started.encoder
    ping_timer = _PingTimer(answers, ping_interval_seconds, call.deadline)
    try:
        has_begun = not encoder.begins_with_usage
        if has_begun:
            yield encoder.begin(answers.prompt_usage)
        ping_timer.start()
        async for number, events in answers:
            ping_timer.reset()
            call.deadline.check()
            opening = b""
            if events and not has_begun:
                opening, has_begun = encoder.begin(answers.prompt_usage), True
            chunk = (
                opening + b"".join([encoder.on_event(event, number) for event in events])
                if events
                else encoder.ping()
            )
            if answers.is_over:
                with timed("format"):
                    chunk += encoder.finish()
                await started.store()
            if chunk:
                yield chunk
    except Exception as error:
        yield encode_stream_error(error, encoder, call)
    finally:
        ping_timer.stop()
        answers.cancel()


def encode_stream_error(error: Exception, encoder: EndsWithError, call: CallContext) -> bytes:
    """Return the event that ends a started stream with `error`."""
    if isinstance(error, MlxctlError):
        record_error(error, call.record)
        _log.warning("a stream ended early: %s", error)
        return encoder.on_error(error, request_id=call.request_id)
    _log.error("a stream failed unexpectedly", exc_info=error)
    failed = SequenceFailed("the server failed unexpectedly; its log says why")
    record_error(failed, call.record)
    return encoder.on_error(failed, request_id=call.request_id)


class PendingAnswers:
    """Starting answers, in their own task.

    The creator registers `cancel` for the end of the request.
    """

    def __init__(self, starting: Coroutine[Any, Any, StartedAnswers]) -> None:
        self._task = asyncio.create_task(starting, name="start")

    async def started_within(self, seconds: float) -> StartedAnswers | None:
        """Wait at most `seconds` for the answers. Raises what starting them raises."""
        await asyncio.wait({self._task}, timeout=seconds)
        return self._task.result() if self._task.done() else None

    def cancel(self) -> None:
        """Cancel the start, or the started answers. Idempotent."""
        if not self._task.done():
            self._task.cancel()
        elif not self._task.cancelled() and self._task.exception() is None:
            self._task.result().cancel()


async def stream_of(
    start: PendingAnswers,
    create_waiting: Callable[[], Encoder],
    call: CallContext,
    *,
    ping_interval_seconds: float,
) -> AsyncGenerator[bytes, None]:
    """Return the chunks of the answers.

    Those that do not start within the ping interval begin with pings, of an encoder for the time until they
    start. Raises what starting them raises, within that interval.
    """
    if started := await start.started_within(ping_interval_seconds):
        return stream_answer(started, call, ping_interval_seconds=ping_interval_seconds)
    return stream_when_started(start, create_waiting(), call, ping_interval_seconds=ping_interval_seconds)


async def stream_when_started(
    start: PendingAnswers, waiting: Encoder, call: CallContext, *, ping_interval_seconds: float
) -> AsyncGenerator[bytes, None]:
    """Yield pings until the answers have started, then their chunks.

    An error becomes an event of the stream.
    """
    try:
        yield waiting.ping()
        while (started := await start.started_within(ping_interval_seconds)) is None:
            call.deadline.check()
            yield waiting.ping()
    except Exception as error:
        yield encode_stream_error(error, waiting, call)
        return
    chunks = stream_answer(started, call, ping_interval_seconds=ping_interval_seconds)
    async with aclosing(chunks):
        async for chunk in chunks:
            yield chunk


class _PingTimer:
    """Wakes the answers after an interval without events, and at the deadline.

    PERF: one timer a stream, rescheduled when it fires; a timeout around every token would cost a tenth of
    the front's CPU time.
    """

    def __init__(self, answers: Answers, interval_seconds: float, deadline: Deadline) -> None:
        self._answers = answers
        self._interval_seconds = interval_seconds
        self._deadline = deadline
        self._loop = asyncio.get_running_loop()
        self._last = self._loop.time()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = self._loop.call_at(
            min(self._last + self._interval_seconds, self._deadline.end), self._look
        )

    def reset(self) -> None:
        """Restart the interval until the next ping."""
        self._last = self._loop.time()

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _look(self) -> None:
        now = self._loop.time()
        if now >= min(self._last + self._interval_seconds, self._deadline.end):
            self._answers.nudge()
            self._last = now
        if now < self._deadline.end:
            self.start()
