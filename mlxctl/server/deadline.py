"""The moment by which a request has to be answered, waiting included."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from mlxctl.errors import DeadlineExceeded


class Deadline:
    """Counts from its making; `end` is in the running event loop's time."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._loop = asyncio.get_running_loop()
        self.end = self._loop.time() + seconds

    def check(self) -> None:
        """Raise DeadlineExceeded when the time is up."""
        if self._loop.time() >= self.end:
            raise DeadlineExceeded(
                f"the request took longer than the {self._seconds:g} seconds that it may take here"
            )

    @asynccontextmanager
    async def limit(self) -> AsyncIterator[None]:
        """Cancel what runs inside when the time is up, and raise DeadlineExceeded instead."""
        try:
            async with asyncio.timeout_at(self.end):
                yield
        except TimeoutError:
            self.check()
            raise
