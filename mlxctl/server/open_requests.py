"""Count of open requests, for a graceful stop."""

import asyncio

from mlxctl.server.disconnect import Scope, call_at_end


class OpenHttpRequests:
    """Counts open generations. Event-loop thread only."""

    def __init__(self) -> None:
        self.num_open = 0
        self._all_done = asyncio.Event()
        self._all_done.set()

    def enter(self, scope: Scope) -> None:
        """Count the request of `scope` until it ends."""
        self.num_open += 1
        self._all_done.clear()
        call_at_end(scope, self._leave)

    async def wait_done(self, *, seconds: float) -> None:
        """Wait until no request is open, at most `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._all_done.wait()
        except TimeoutError:
            return

    def _leave(self) -> None:
        self.num_open -= 1
        if not self.num_open:
            self._all_done.set()
