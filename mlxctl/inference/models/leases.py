"""Leases on loaded models, and the queue of requests for them.

Event-loop thread only.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mlxctl.ir.errors import EngineDied, EngineRecovering, MlxctlError, QueueFull

_RETRY_AFTER_SECONDS = 5.0
_RETRY_AFTER_DEATH_SECONDS = 2.0


class Lease:
    """Right to use a loaded model, until each holder has released it.

    `on_change` gets the model's name and by how much its number of holders changed.
    """

    def __init__(self, name: str, on_change: Callable[[str, int], None]) -> None:
        self.name = name
        self._on_change = on_change
        self._num_holders = 0
        self.share()

    def share(self) -> None:
        """Add a holder."""
        self._num_holders += 1
        self._on_change(self.name, 1)

    def release(self) -> None:
        """Remove a holder; without any, the model may be evicted."""
        if self._num_holders:
            self._num_holders -= 1
            self._on_change(self.name, -1)


@dataclass(slots=True, eq=False)
class _QueuedRequest:
    """A request that waits for its model to be loaded."""

    name: str
    lease: asyncio.Future[Lease] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class LeaseQueue:
    """Requests that wait for leases, in order of arrival.

    `changed` is set when a request leaves the queue. Other code may set it to wake a task that waits for it.
    """

    def __init__(self, *, max_waiting: int) -> None:
        self.changed = asyncio.Event()
        self._max_waiting = max_waiting
        self._requests: list[_QueuedRequest] = []

    def __len__(self) -> int:
        return len(self._requests)

    @property
    def first(self) -> str:
        """Name of the model that the oldest request waits for."""
        return self._requests[0].name

    def has(self, name: str) -> bool:
        """Whether a request waits for the model."""
        return any(queued.name == name for queued in self._requests)

    async def wait(self, name: str, *, on_queued: Callable[[], None]) -> Lease:
        """Queue a request, call `on_queued`, and wait for its lease.

        Raises QueueFull, and the error given to `fail`.
        """
        if len(self._requests) >= self._max_waiting:
            message = f"{len(self._requests)} requests are waiting for a model to be loaded already"
            raise QueueFull(message, retry_after_seconds=_RETRY_AFTER_SECONDS)
        queued = _QueuedRequest(name)
        self._requests.append(queued)
        on_queued()
        try:
            return await queued.lease
        except asyncio.CancelledError:
            if queued.lease.done() and not queued.lease.cancelled() and queued.lease.exception() is None:
                queued.lease.result().release()
            raise
        finally:
            if queued in self._requests:
                self._requests.remove(queued)
                self.changed.set()

    def grant(self, name: str, create_lease: Callable[[], Lease]) -> None:
        """Give a lease to every request for the model."""
        for queued in self._take(name):
            if not queued.lease.done():
                queued.lease.set_result(create_lease())

    def fail(self, error: MlxctlError, name: str | None = None) -> None:
        """Fail the requests for the model, or all of them."""
        if isinstance(error, EngineDied):
            error = EngineRecovering(
                "the engine died while it loaded a model; try again in a moment",
                retry_after_seconds=_RETRY_AFTER_DEATH_SECONDS,
            )
        for queued in self._take(name):
            if not queued.lease.done():
                queued.lease.set_exception(error)

    def _take(self, name: str | None) -> list[_QueuedRequest]:
        taken = [queued for queued in self._requests if name in (None, queued.name)]
        self._requests = [queued for queued in self._requests if queued not in taken]
        return taken
