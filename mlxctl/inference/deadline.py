"""The deadline of a request, queueing included."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlxctl.inference.request_record import RequestRecord
from mlxctl.ir.errors import DeadlineExceeded


class Deadline:
    """A deadline `seconds` after creation; `end` is in the event loop's time.

    `record` is marked once it has passed.
    """

    def __init__(self, seconds: float, record: RequestRecord) -> None:
        self._seconds = seconds
        self._record = record
        self._loop = asyncio.get_running_loop()
        self.end = self._loop.time() + seconds

    def check(self) -> None:
        """Raise DeadlineExceeded if the deadline has passed."""
        if self._loop.time() >= self.end:
            self._mark_timed_out()
            raise DeadlineExceeded(f"the request exceeded the time limit of {self._seconds:g} seconds")

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Cancel the enclosed code at the deadline and raise DeadlineExceeded."""
        # The timer runs before the cancelled code ends its generations.
        timer = self._loop.call_at(self.end, self._mark_timed_out)
        try:
            async with asyncio.timeout_at(self.end):
                yield
        except TimeoutError:
            self.check()
            raise
        finally:
            timer.cancel()

    def _mark_timed_out(self) -> None:
        self._record.mark_stopped("timed_out")
