"""Answers that may take long to start: queueing, or loading the model."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Coroutine
from contextlib import aclosing
from typing import Any

from mlxctl.inference import Answers
from mlxctl.protocols import Formatter
from mlxctl.server.deadline import Deadline
from mlxctl.server.stream import encode_stream_error


class PendingAnswers:
    """Starting answers, in their own task.

    The creator registers `cancel` for the end of the request.
    """

    def __init__(self, starting: Coroutine[Any, Any, Answers]) -> None:
        self._task = asyncio.create_task(starting, name="start")

    async def answers_within(self, seconds: float) -> Answers | None:
        """Wait at most `seconds` for the answers. Raises what starting them raises."""
        await asyncio.wait({self._task}, timeout=seconds)
        return self._task.result() if self._task.done() else None

    def cancel(self) -> None:
        """Cancel the start, or the started answers. Idempotent."""
        if not self._task.done():
            self._task.cancel()
        elif not self._task.cancelled() and self._task.exception() is None:
            self._task.result().cancel()


async def stream_when_started(
    start: PendingAnswers,
    formatter: Formatter,
    *,
    stream: Callable[[Answers], AsyncGenerator[bytes, None]],
    ping_interval_seconds: float,
    deadline: Deadline,
) -> AsyncGenerator[bytes, None]:
    """Yield pings until the answers have started, then the chunks of `stream`.

    An error becomes an event of the stream.
    """
    try:
        yield formatter.ping()
        while (answers := await start.answers_within(ping_interval_seconds)) is None:
            deadline.check()
            yield formatter.ping()
    except Exception as error:
        yield encode_stream_error(error, formatter)
        return
    async with aclosing(stream(answers)) as chunks:
        async for chunk in chunks:
            yield chunk
