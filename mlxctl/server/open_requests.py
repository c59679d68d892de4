"""The requests that are being answered, so that a server told to stop can let the last answers leave."""

import asyncio

from mlxctl.server.disconnect import Scope, call_at_end


class OpenRequests:
    """Counts generations that are open over HTTP.

    Refuses nothing: that is the engine's decision. Event-loop thread only.
    """

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
        """Wait until nothing is open, but no longer than `seconds`."""
        try:
            async with asyncio.timeout(seconds):
                await self._all_done.wait()
        except TimeoutError:
            return

    def _leave(self) -> None:
        self.num_open -= 1
        if not self.num_open:
            self._all_done.set()
