"""A reply as server-sent events, from its start to its end.

The generation is cancelled when the stream ends, for whatever reason.
"""

import asyncio
import logging
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine
from contextlib import aclosing
from typing import Any, Protocol

from mlxctl.inference import Answers
from mlxctl.inference.call_context import CallContext
from mlxctl.ir.errors import MlxctlError, SequenceFailed
from mlxctl.ir.timed_phases import timed
from mlxctl.protocols import Encoder
from mlxctl.server.http.error_handlers import record_error

_log = logging.getLogger(__name__)

StartedReply = tuple[Answers, Encoder, Callable[[], Awaitable[None]]]
"""Answers that are being generated, their encoder, and what stores them.

The last is awaited after the last event and before the end is sent.
"""


class EndsWithError(Protocol):
    """An encoder whose streams can end with an error."""

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:
        """Return the end of a failed stream."""


class StreamedReply:
    """Sends one reply: pings, events, the end.

    Pings come until the answers start, and in silence; `create_waiting` makes the encoder for the time until
    then. `starting` runs in its own task, and the creator registers `cancel` for the end of the request.

    PERF: one timer wakes the stream for pings and at the deadline, and is set again when it fires; a timeout
    around every token would cost a tenth of the front's CPU time.
    """

    def __init__(
        self,
        starting: Coroutine[Any, Any, StartedReply],
        call: CallContext,
        *,
        create_waiting: Callable[[], Encoder],
        ping_interval_seconds: float,
    ) -> None:
        self._call = call
        self._create_waiting = create_waiting
        self._interval_seconds = ping_interval_seconds
        self._loop = asyncio.get_running_loop()
        self._last_event_at = 0.0
        self._timer: asyncio.TimerHandle | None = None
        self._starting = asyncio.create_task(starting, name="start")

    async def chunks(self) -> AsyncGenerator[bytes, None]:
        """Return the chunks of `resp.stream`.

        Answers that do not start within the ping interval begin with pings. Raises what starting them raises,
        within that interval. After the first byte the status is fixed, so an error becomes an event.
        """
        return self._encoded() if await self._start_within_interval() else self._encoded_when_started()

    def cancel(self) -> None:
        """Cancel the start, or the started answers. Idempotent."""
        if not self._starting.done():
            self._starting.cancel()
        elif not self._starting.cancelled() and self._starting.exception() is None:
            self._starting.result()[0].cancel()

    async def _start_within_interval(self) -> StartedReply | None:
        """Wait at most the ping interval for the answers.

        Raises what starting them raises.
        """
        await asyncio.wait({self._starting}, timeout=self._interval_seconds)
        return self._starting.result() if self._starting.done() else None

    async def _encoded_when_started(self) -> AsyncGenerator[bytes, None]:
        waiting = self._create_waiting()
        try:
            yield waiting.ping()
            while await self._start_within_interval() is None:
                self._call.check_deadline()
                yield waiting.ping()
        except Exception as error:
            yield encode_stream_error(error, waiting, self._call)
            return
        async with aclosing(self._encoded()) as chunks:
            async for chunk in chunks:
                yield chunk

    async def _encoded(self) -> AsyncGenerator[bytes, None]:
        """Yield the chunks of the started answers.

        Events that are ready together become one chunk; an interval without events is followed by a ping.
        """
        answers, encoder, store = self._starting.result()
        self._last_event_at = self._loop.time()
        try:
            has_begun = not encoder.begins_with_usage
            if has_begun:
                yield encoder.begin(answers.prompt_usage)
            self._set_timer()
            async for number, events in answers:
                self._last_event_at = self._loop.time()
                self._call.check_deadline()
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
                    await store()
                if chunk:
                    yield chunk
        except Exception as error:
            yield encode_stream_error(error, encoder, self._call)
        finally:
            if self._timer is not None:
                self._timer.cancel()
            answers.cancel()

    def _set_timer(self) -> None:
        self._timer = self._loop.call_at(self._next_wake, self._wake)

    @property
    def _next_wake(self) -> float:
        return min(self._last_event_at + self._interval_seconds, self._call.ends_at)

    def _wake(self) -> None:
        """Wake the answers after an interval without events, and at the deadline."""
        now = self._loop.time()
        if now >= self._next_wake:
            self._starting.result()[0].nudge()
            self._last_event_at = now
        if now < self._call.ends_at:
            self._set_timer()


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
