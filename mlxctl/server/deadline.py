"""The deadline of a request, queueing included."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlxctl.errors import DeadlineExceeded
from mlxctl.inference.request_context import current_request


class Deadline:
    """A deadline `seconds` after creation; `end` is in the event loop's time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.end = self._loop.time() + seconds

    def check(self) -> None:
        """Raise DeadlineExceeded if the deadline has passed."""
        if self._loop.time() >= self.end:
            _mark_timed_out()
            raise DeadlineExceeded(
                f"the request took longer than the {self._seconds:g} seconds that it may take here"
            )

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Cancel the enclosed code at the deadline and raise DeadlineExceeded."""
        # The timer runs before the cancelled code ends its generations.
        timer = self._loop.call_at(self.end, _mark_timed_out)
        try:
            async with asyncio.timeout_at(self.end):
                yield
        except TimeoutError:
            self.check()
            raise
        finally:
            timer.cancel()


def _mark_timed_out() -> None:
    if (context := current_request.get()) is not None:
        context.mark_stopped("timed_out")
