"""Open requests and idle connections, for a graceful stop."""

import asyncio
from collections.abc import Callable

from mlxctl.server.http.disconnect import Scope, call_at_end


class OpenHttpRequests:
    """Counts open generations; closes WebSockets. Event-loop thread only."""

    def __init__(self) -> None:
        self.num_open = 0
        self._all_done = asyncio.Event()
        self._all_done.set()
        self._closers: set[Callable[[], None]] = set()
        self._is_stopping = False

    def call_at_stop(self, close: Callable[[], None]) -> Callable[[], None]:
        """Call `close` when the server stops.

        Returns a function to call once the connection is closed.
        """
        self._closers.add(close)

        def closed() -> None:
            self._closers.discard(close)
            self._check()

        return closed

    def enter(self, scope: Scope) -> None:
        """Count the request of `scope` until it ends."""
        self.num_open += 1
        self._all_done.clear()
        call_at_end(scope, self._leave)

    async def close(self, *, seconds: float) -> None:
        """Close WebSockets; wait at most `seconds` for them and for open requests."""
        self._is_stopping = True
        if self._closers:
            self._all_done.clear()
        for close in tuple(self._closers):
            close()
        try:
            async with asyncio.timeout(seconds):
                await self._all_done.wait()
        except TimeoutError:
            return

    def _leave(self) -> None:
        self.num_open -= 1
        self._check()

    def _check(self) -> None:
        if not self.num_open and not (self._is_stopping and self._closers):
            self._all_done.set()
