"""The deadline of a request, queueing included."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlxctl.errors import DeadlineExceeded


class Deadline:
    """A deadline `seconds` after creation; `end` is in the event loop's time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.end = self._loop.time() + seconds

    def check(self) -> None:
        """Raise DeadlineExceeded if the deadline has passed."""
        if self._loop.time() >= self.end:
            raise DeadlineExceeded(
                f"the request took longer than the {self._seconds:g} seconds that it may take here"
            )

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Cancel the enclosed code at the deadline and raise DeadlineExceeded."""
        try:
            async with asyncio.timeout_at(self.end):
                yield
        except TimeoutError:
            self.check()
            raise
