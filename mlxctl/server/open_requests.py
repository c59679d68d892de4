"""The requests that are being answered, so that a server told to stop can finish them and take nothing new."""

import asyncio

from mlxctl.errors import ShuttingDown
from mlxctl.server.disconnect import Scope, call_at_end


class OpenRequests:
    """Counts what is open. Once draining it lets nothing in. Owned by the event loop's thread."""

    def __init__(self) -> None:
        self.is_draining = False
        self.num_open = 0
        self._all_done = asyncio.Event()
        self._all_done.set()

    def enter(self, scope: Scope) -> None:
        """Count the request of `scope` until it ends; raises ShuttingDown when draining."""
        if self.is_draining:
            raise ShuttingDown("the server is shutting down; ask again when it is back", retry_after_seconds=5)
        self.num_open += 1
        self._all_done.clear()
        call_at_end(scope, self._leave)

    async def drain(self, *, seconds: float) -> bool:
        """Let nothing new in and wait for the rest; return whether all of it ended in time."""
        self.is_draining = True
        try:
            async with asyncio.timeout(seconds):
                await self._all_done.wait()
        except TimeoutError:
            return False
        return True

    def _leave(self) -> None:
        self.num_open -= 1
        if not self.num_open:
            self._all_done.set()
