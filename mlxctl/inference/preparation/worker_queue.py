"""Workers for requests of one size, and the queue for them.

Event-loop thread only.
"""

import asyncio
from collections import deque

from mlxctl.inference.preparation.limits import QueueLimits
from mlxctl.inference.preparation.worker import Worker
from mlxctl.ir.errors import QueueFull

_RETRY_AFTER_SECONDS = 2.0


class WorkerQueue:
    """Bounded slots, granted in order of arrival, and the idle workers."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.idle: list[Worker] = []
        self._num_busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def acquire(self) -> None:
        """Wait for a slot. Raises QueueFull."""
        if self._num_busy < self.limits.max_workers:
            self._num_busy += 1
            return
        if len(self._waiting) >= self.limits.max_waiting:
            message = f"{len(self._waiting)} requests are waiting to be prepared already"
            raise QueueFull(message, retry_after_seconds=_RETRY_AFTER_SECONDS)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.release()
            else:
                self._waiting.remove(turn)
            raise

    def release(self) -> None:
        """Give the slot to the request that has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._num_busy -= 1

    def take_idle(self, generation: int) -> Worker | None:
        """Return an idle worker of at least this generation.

        Older ones are ended.
        """
        while self.idle:
            worker = self.idle.pop()
            if worker.generation >= generation and not worker.has_ended:
                return worker
            worker.end()
        return None

    def end_idle(self) -> None:
        """End all idle workers."""
        for worker in self.idle:
            worker.end()
        self.idle.clear()
