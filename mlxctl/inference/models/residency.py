"""Residency of models: which are loaded, leased and evicted.

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
from functools import partial
from typing import Protocol

from mlxctl.inference.models.eviction import (
    ModelMemoryBudget,
    ModelShortage,
    ResidentModel,
    eviction_order,
    select_expired,
    select_victims,
)
from mlxctl.inference.models.leases import Lease, LeaseQueue
from mlxctl.ir.errors import (
    EngineError,
    EngineRecovering,
    MlxctlError,
    ModelError,
    ModelInUse,
    ModelUnavailable,
    NotEnoughMemory,
    ShuttingDown,
)
from mlxctl.ir.models import ModelState

# Time after a failed load in which requests for the model fail without another attempt.
RETRY_SECONDS = 30.0

_log = logging.getLogger(__name__)


class Loader(Protocol):
    """Loads models into memory and unloads them."""

    def check_ready(self) -> None:
        """Raise the CapacityError that explains why nothing can be loaded now."""

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
        self._ttl_seconds = ttl_seconds
        # Times to live that requests have set; None is for ever.
        self._requested_ttls: dict[str, float | None] = {}
        self._use_changed = asyncio.Event()
        self._clock = clock
        self._num_leases: dict[str, int] = {}
        self._used_at: dict[str, float] = {}
        self._failures: dict[str, tuple[str, float]] = {}
        self._queue = LeaseQueue(max_waiting=max_waiting)
        self._evicting: set[str] = set()
        self._loading: str | None = None
        self._load_task: asyncio.Task[None] | None = None
        self._lock = asyncio.Lock()

    async def lease(self, name: str) -> Lease:
        """Return a lease of the model, loading it if necessary.

        Raises CapacityError, ModelUnavailable.
        """
        self._loader.check_ready()
        if self.is_ready(name):
            return Lease(name, self._count_lease)
        self._check_failed_recently(name)
        return await self._queue.wait(name, on_queued=self._start_loading)

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
                await self._unload(name)
            finally:
                self._evicting.discard(name)
            return True

    async def unload_expired(self) -> None:
        """Unload the models that had no request for their time to live."""
        for name in select_expired(self.residents(), now=self._clock()):
            try:
                if await self.unload(name):
                    _log.info("model %r had no request for its time to live and is unloaded", name)
            except (ModelInUse, EngineError, EngineRecovering, ShuttingDown):
                return

    def keep_alive(self, name: str, seconds: float | None) -> None:
        """Set the time to live of the model until it is unloaded.

        None is for ever.
        """
        self._requested_ttls[name] = seconds
        self._use_changed.set()

    def seconds_to_expiry(self, name: str | None = None) -> float | None:
        """Return the seconds until the model expires.

        Without a name, until the first one does. None for never. A model in use does not expire.
        """
        now = self._clock()
        return min(
            (
                max(0.0, resident.used_at + resident.ttl_seconds - now)
                for resident in self.residents()
                if name in (None, resident.name)
                and resident.ttl_seconds is not None
                and not (resident.is_pinned or resident.num_leases)
            ),
            default=None,
        )

    async def wait_use_changed(self) -> None:
        """Wait until a model's leases or its time to live have changed."""
        await self._use_changed.wait()
        self._use_changed.clear()

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
                ttl_seconds=self._requested_ttls.get(name, self._ttl_seconds),
            )
            for name, num_bytes in self._loader.sizes().items()
        ]

    async def close(self) -> None:
        """Stop loading; waiting requests fail with ShuttingDown."""
        self._queue.fail(ShuttingDown("the server is shutting down"))
        if self._load_task is not None:
            self._load_task.cancel()
            await asyncio.wait({self._load_task})

    def _check_failed_recently(self, name: str) -> None:
        if name in self._failures and self._clock() - self._failures[name][1] < RETRY_SECONDS:
            raise ModelUnavailable(name, self._failures[name][0])

    def _count_lease(self, name: str, change: int) -> None:
        self._num_leases[name] = self._num_leases.get(name, 0) + change
        self._used_at[name] = self._clock()
        self._queue.changed.set()
        self._use_changed.set()

    def _start_loading(self) -> None:
        if self._load_task is None or self._load_task.done():
            self._load_task = asyncio.create_task(self._serve_queue(), name="model-loading")

    async def _serve_queue(self) -> None:
        try:
            while self._queue:
                name = self._queue.first
                try:
                    await self._make_resident(name)
                except MlxctlError as error:
                    self._queue.fail(error, name)
                except asyncio.CancelledError:
                    raise
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a panic of a native library is no Exception
                    _log.error("model %r was not loaded", name, exc_info=error)
                    self._queue.fail(
                        ModelUnavailable(name, "the server failed unexpectedly; its log says why"), name
                    )
                else:
                    self._queue.grant(name, partial(Lease, name, self._count_lease))
        finally:
            # Only a cancelled or failed task leaves requests in the queue.
            self._queue.fail(EngineRecovering("the model was not loaded; try again in a moment"))

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
                self._queue.changed.clear()
                await self._queue.changed.wait()
                if not self._queue.has(wanted):
                    return False
            for victim in victims:
                async with self._lock:
                    if victim in self._loader.sizes():
                        await self._unload(victim)
                        self.num_evictions += 1
            return self._queue.has(wanted)
        finally:
            self._evicting.difference_update(victims)

    async def _unload(self, name: str) -> None:
        await self._loader.unload(name)
        self._requested_ttls.pop(name, None)

    def _others(self, name: str) -> list[ResidentModel]:
        return [resident for resident in self.residents() if resident.name != name]

    def _victims(self, name: str) -> tuple[str, ...] | None:
        return select_victims(
            self._others(name), num_bytes=self._loader.num_bytes(name), budget=self._loader.budget()
        )

    def _shortage(self, name: str) -> ModelShortage:
        num_bytes, budget = self._loader.num_bytes(name), self._loader.budget()
        return ModelShortage(name, self._others(name), num_bytes=num_bytes, budget=budget)
