"""Leases on loaded models and the queue for others.

Event-loop thread only. One model is loaded at a time. A request for a loaded model gets a lease at once; all
others wait in one queue, in order of arrival. Its head is served next, together with every request for the
same model. Models that must be evicted for it take no new requests from then on (those join the queue) and
are unloaded when their last lease ends. So a model with requests is never evicted, and a steady stream of
requests for one model cannot starve another.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from mlxctl.errors import (
    EngineDied,
    EngineError,
    EngineRecovering,
    MlxctlError,
    ModelError,
    ModelInUse,
    ModelUnavailable,
    NotEnoughMemory,
    QueueFull,
    ShuttingDown,
)
from mlxctl.inference.models.eviction import (
    ModelMemoryBudget,
    ResidentModel,
    describe_shortage,
    eviction_order,
    select_expired,
    select_victims,
)
from mlxctl.ir.models import ModelState

# Requests for a model that could not be loaded fail for so long without another attempt.
RETRY_SECONDS = 30.0
_RETRY_AFTER_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Lease:
    """Right to use a loaded model, which stays loaded until release.

    `on_change` gets the model's name and by how much its number of leases changed.
    """

    def __init__(self, name: str, on_change: Callable[[str, int], None]) -> None:
        self.name = name
        self._on_change = on_change
        self._is_open = True
        on_change(name, 1)

    def share(self) -> "Lease":
        """Return another lease of the same model, to be released independently."""
        assert self._is_open, "a released lease cannot be shared"
        return Lease(self.name, self._on_change)

    def release(self) -> None:
        """Release the model for eviction."""
        if self._is_open:
            self._is_open = False
            self._on_change(self.name, -1)


class Loader(Protocol):
    """Loads models into memory and unloads them."""

    def check_ready(self) -> None:
        """Raise the CapacityError that says why nothing can be loaded now."""

    def sizes(self) -> Mapping[str, int]:
        """Return the bytes of the weights of each loaded model."""

    def num_bytes(self, name: str) -> int:
        """Return the bytes that a model will take."""

    def budget(self) -> ModelMemoryBudget:
        """Return the memory that models may take."""

    async def load(self, name: str) -> None:
        """Load the weights. Raises ModelError, EngineDied and CapacityError."""

    async def unload(self, name: str) -> None:
        """Unload the weights. Raises ModelInUse, EngineDied and CapacityError."""


@dataclass(slots=True, eq=False)
class _QueuedRequest:
    """A request that waits for its model to be loaded."""

    name: str
    lease: asyncio.Future[Lease]


class ModelResidency:
    """Grants leases; loads models and evicts others for them.

    Names are those of the loader, and only the loader knows what is in memory, since an engine may die.
    """

    def __init__(
        self,
        loader: Loader,
        *,
        max_waiting: int,
        ttl_seconds: float | None = None,
        pins: frozenset[str] = frozenset(),
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.pins = set(pins)
        self.num_loads = self.num_evictions = self.num_swaps = 0
        self._loader = loader
        self._max_waiting = max_waiting
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._num_leases: dict[str, int] = {}
        self._used_at: dict[str, float] = {}
        self._failures: dict[str, tuple[str, float]] = {}
        self._queue: list[_QueuedRequest] = []
        self._evicting: set[str] = set()
        self._loading: str | None = None
        self._load_task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()
        self._changed = asyncio.Event()

    async def lease(self, name: str) -> Lease:
        """Return a lease of the model, loading it if necessary.

        Raises CapacityError, ModelUnavailable.
        """
        self._loader.check_ready()
        if self.is_ready(name):
            return Lease(name, self._count_lease)
        self._check_failed_recently(name)
        if len(self._queue) >= self._max_waiting:
            message = f"{len(self._queue)} requests are waiting for a model to be loaded already"
            raise QueueFull(message, retry_after_seconds=_RETRY_AFTER_SECONDS)
        queued = _QueuedRequest(name, asyncio.get_running_loop().create_future())
        self._queue.append(queued)
        self._start_loading()
        try:
            return await queued.lease
        except asyncio.CancelledError:
            if queued.lease.done() and not queued.lease.cancelled() and queued.lease.exception() is None:
                queued.lease.result().release()
            raise
        finally:
            if queued in self._queue:
                self._queue.remove(queued)
                self._changed.set()

    async def load(self, name: str) -> None:
        """Load the model, also if it failed to load a moment ago.

        Raises what `lease` does.
        """
        self._failures.pop(name, None)
        (await self.lease(name)).release()

    async def unload(self, name: str) -> bool:
        """Unload the model; return False if it was not loaded.

        Raises ModelInUse while requests use it, EngineError, CapacityError.
        """
        async with self._lock:
            if self._num_leases.get(name):
                raise ModelInUse(name)
            if name not in self._loader.sizes():
                return False
            self._evicting.add(name)
            try:
                await self._loader.unload(name)
            finally:
                self._evicting.discard(name)
            return True

    async def unload_expired(self) -> None:
        """Unload the models that had no request for their time to live."""
        if self._ttl_seconds is None:
            return
        for name in select_expired(self.residents(), now=self._clock(), ttl_seconds=self._ttl_seconds):
            try:
                if await self.unload(name):
                    _log.info("model %r was not used for %g s and is unloaded", name, self._ttl_seconds)
            except (ModelInUse, EngineError, EngineRecovering, ShuttingDown):
                return

    def record_failure(self, name: str, error: ModelError) -> None:
        """Remember and log that the model cannot be loaded as it is."""
        self._failures[name] = error.without_path(name), self._clock()
        _log.error("model %r cannot be served: %s", name, error)

    def fits(self, name: str) -> bool:
        """Whether the model could be loaded without evicting another."""
        return self._victims(name) == ()

    def is_ready(self, name: str) -> bool:
        """Whether a lease is granted without waiting."""
        return name in self._loader.sizes() and name not in self._evicting

    def state(self, name: str) -> ModelState:
        """Return the model's state."""
        if self._loading == name:
            return "loading"
        if name in self._loader.sizes():
            return "loaded"
        return "failed" if name in self._failures else "not_loaded"

    def problem(self, name: str) -> str | None:
        """Return why the last load of the model failed."""
        failure = self._failures.get(name)
        return failure[0] if failure else None

    @property
    def num_waiting(self) -> int:
        """Number of requests that wait for a model."""
        return len(self._queue)

    def residents(self) -> list[ResidentModel]:
        """Return the models in memory."""
        now = self._clock()
        return [
            ResidentModel(
                name=name,
                num_bytes=num_bytes,
                num_leases=self._num_leases.get(name, 0),
                used_at=self._used_at.setdefault(name, now),
                is_pinned=name in self.pins,
            )
            for name, num_bytes in self._loader.sizes().items()
        ]

    async def close(self) -> None:
        """Stop loading; waiting requests fail with ShuttingDown."""
        self._fail_queued(ShuttingDown("the server is shutting down"))
        if self._load_task is not None:
            self._load_task.cancel()
            await asyncio.wait({self._load_task})

    def _check_failed_recently(self, name: str) -> None:
        if name in self._failures and self._clock() - self._failures[name][1] < RETRY_SECONDS:
            raise ModelUnavailable(name, self._failures[name][0])

    def _count_lease(self, name: str, change: int) -> None:
        self._num_leases[name] = self._num_leases.get(name, 0) + change
        self._used_at[name] = self._clock()
        self._changed.set()

    def _start_loading(self) -> None:
        if self._load_task is None or self._load_task.done():
            self._load_task = asyncio.create_task(self._serve_queue(), name="model-loading")

    async def _serve_queue(self) -> None:
        try:
            while self._queue:
                name = self._queue[0].name
                try:
                    await self._make_resident(name)
                except MlxctlError as error:
                    self._fail_queued(error, name)
                except asyncio.CancelledError:
                    raise
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a panic of a native library is no Exception
                    _log.error("model %r was not loaded", name, exc_info=error)
                    self._fail_queued(
                        ModelUnavailable(name, "the server failed unexpectedly; its log says why"), name
                    )
                else:
                    self._grant(name)
        finally:
            # Only a cancelled or failed task leaves requests in the queue.
            self._fail_queued(EngineRecovering("the model was not loaded; try again in a moment"))

    async def _make_resident(self, name: str) -> None:
        """Load the model, evicting others, while a request waits for it."""
        victims = () if self.is_ready(name) else self._victims(name)
        if victims is None:
            raise self._shortage(name)
        while not self.is_ready(name):
            if not await self._evict(victims, wanted=name):
                return
            try:
                await self._load(name)
                self.num_swaps += bool(victims)
            except NotEnoughMemory:
                # Caches take memory, too, and what a model takes may be known only after loading it.
                victims = tuple(resident.name for resident in eviction_order(self._others(name))[:1])
                if not victims:
                    raise self._shortage(name) from None

    async def _load(self, name: str) -> None:
        async with self._lock:
            self._loading = name
            try:
                await self._loader.load(name)
                self._used_at[name] = self._clock()
                self._failures.pop(name, None)
                self.num_loads += 1
            except NotEnoughMemory:
                raise
            except ModelError as error:
                self.record_failure(name, error)
                raise ModelUnavailable(name, self._failures[name][0]) from None
            finally:
                self._loading = None

    async def _evict(self, victims: tuple[str, ...], *, wanted: str) -> bool:
        """Unload the victims after their last lease.

        Returns False, and keeps the rest of them, when no request waits for `wanted` any more.
        """
        self._evicting.update(victims)
        try:
            while any(self._num_leases.get(victim) for victim in victims):
                self._changed.clear()
                await self._changed.wait()
                if not self._is_queued(wanted):
                    return False
            for victim in victims:
                async with self._lock:
                    if victim in self._loader.sizes():
                        await self._loader.unload(victim)
                        self.num_evictions += 1
            return self._is_queued(wanted)
        finally:
            self._evicting.difference_update(victims)

    def _is_queued(self, name: str) -> bool:
        return any(queued.name == name for queued in self._queue)

    def _others(self, name: str) -> list[ResidentModel]:
        return [resident for resident in self.residents() if resident.name != name]

    def _victims(self, name: str) -> tuple[str, ...] | None:
        return select_victims(
            self._others(name), num_bytes=self._loader.num_bytes(name), budget=self._loader.budget()
        )

    def _shortage(self, name: str) -> ModelUnavailable:
        num_bytes, budget = self._loader.num_bytes(name), self._loader.budget()
        reason = describe_shortage(self._others(name), num_bytes=num_bytes, budget=budget)
        return ModelUnavailable(name, reason)

    def _grant(self, name: str) -> None:
        granted = [queued for queued in self._queue if queued.name == name]
        self._queue = [queued for queued in self._queue if queued.name != name]
        for queued in granted:
            if not queued.lease.done():
                queued.lease.set_result(Lease(name, self._count_lease))

    def _fail_queued(self, error: MlxctlError, name: str | None = None) -> None:
        """Fail the requests for the model, or all of them."""
        if isinstance(error, EngineDied):
            error = EngineRecovering(
                "the engine died while it loaded a model; try again in a moment", retry_after_seconds=2.0
            )
        failed = [queued for queued in self._queue if name in (None, queued.name)]
        self._queue = [queued for queued in self._queue if queued not in failed]
        for queued in failed:
            if not queued.lease.done():
                queued.lease.set_exception(error)
