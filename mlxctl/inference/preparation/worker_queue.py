"""The workers for requests of one size, and who waits for them. Event-loop thread only."""

import asyncio
from collections import deque

from mlxctl.errors import QueueFull
from mlxctl.inference.preparation.limits import QueueLimits
from mlxctl.inference.preparation.worker import Worker

_TRY_AGAIN_SECONDS = 2.0


class WorkerQueue:
    """So many places at once, handed out in the order of arrival, and workers that have nothing to do."""

    def __init__(self, limits: QueueLimits) -> None:
        self.limits = limits
        self.idle: list[Worker] = []
        self._num_busy = 0
        self._waiting: deque[asyncio.Future[None]] = deque()

    async def enter(self) -> None:
        """Wait for a place. Raises QueueFull when too many wait already."""
        if self._num_busy < self.limits.max_workers:
            self._num_busy += 1
            return
        if len(self._waiting) >= self.limits.max_waiting:
            message = f"{len(self._waiting)} requests wait already to be prepared"
            raise QueueFull(message, retry_after_seconds=_TRY_AGAIN_SECONDS)
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self.leave()
            else:
                self._waiting.remove(turn)
            raise

    def leave(self) -> None:
        """Give the place to who has waited longest."""
        while self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._num_busy -= 1

    def take_idle(self, generation: int) -> Worker | None:
        """Return a worker that has nothing to do and knows what the template of `generation` knew; others are
        ended.
        """
        while self.idle:
            worker = self.idle.pop()
            if worker.generation >= generation and not worker.has_ended:
                return worker
            worker.end()
        return None

    def end_idle(self) -> None:
        """End the workers that have nothing to do."""
        for worker in self.idle:
            worker.end()
        self.idle.clear()
