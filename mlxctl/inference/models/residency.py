"""The models in memory and who uses them: leases, the queue for models that are not there, who makes way.

Event-loop thread only.

One model is moved at a time. Who asks for a model that is there gets a lease at once; who asks for another
waits in one queue, in order of arrival. Its head is served next, with everybody who waits for the same model:
if others have to make way, they take no new requests from then on (these go to the queue, too) and leave when
their last lease ends. So a model with requests is never evicted, and a steady stream of requests for one
model cannot keep another out.
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
    MemoryBudget,
    Resident,
    choose_victims,
    eviction_order,
    expired,
    explain_refusal,
)
from mlxctl.inference.models.lease import Lease
from mlxctl.ir.models import ModelState

# How long a model that could not be loaded is refused without another try.
RETRY_SECONDS = 30.0
_RETRY_AFTER_SECONDS = 5.0

_log = logging.getLogger(__name__)


class Loader(Protocol):
    """Brings models into memory and out of it."""

    def check_ready(self) -> None:
        """Raise the CapacityError that says why nothing can be loaded now."""

    def sizes(self) -> Mapping[str, int]:
        """Return the models that are in memory, with their bytes."""

    def num_bytes(self, name: str) -> int:
        """Return the bytes that a model will take."""

    def room(self) -> MemoryBudget:
        """Return what models may take."""

    async def load(self, name: str) -> None:
        """Raises ModelError, EngineDied and CapacityError."""

    async def unload(self, name: str) -> None:
        """Raises ModelInUse, EngineDied and CapacityError."""


@dataclass(slots=True, eq=False)
class _Waiting:
    """Somebody who waits for a model."""

    name: str
    lease: asyncio.Future[Lease]


class ModelResidency:
    """Hands out leases.

    Names are those of the loader; who is in memory is only ever asked of it, because an engine may die.
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
        self.num_loads = self.num_evictions = 0
        self._loader = loader
        self._max_waiting = max_waiting
        self._ttl_seconds = ttl_seconds
        self._clock = clock
        self._num_leases: dict[str, int] = {}
        self._used_at: dict[str, float] = {}
        self._failures: dict[str, tuple[str, float]] = {}
        self._waiting: list[_Waiting] = []
        self._leaving: set[str] = set()
        self._loading: str | None = None
        self._mover: asyncio.Task[None] | None = None
        self._hands = asyncio.Lock()
        self._news = asyncio.Event()

    async def lease(self, name: str) -> Lease:
        """Return a lease of the model, after it was loaded if need be.

        Raises CapacityError, ModelUnavailable.
        """
        self._loader.check_ready()
        if self.is_here(name):
            return Lease(name, self._on_lease)
        self._refuse_failed(name)
        if len(self._waiting) >= self._max_waiting:
            message = f"{len(self._waiting)} requests are waiting for a model to be loaded already"
            raise QueueFull(message, retry_after_seconds=_RETRY_AFTER_SECONDS)
        waiting = _Waiting(name, asyncio.get_running_loop().create_future())
        self._waiting.append(waiting)
        self._start_moving()
        try:
            return await waiting.lease
        except asyncio.CancelledError:
            if waiting.lease.done() and not waiting.lease.cancelled() and waiting.lease.exception() is None:
                waiting.lease.result().release()
            raise
        finally:
            if waiting in self._waiting:
                self._waiting.remove(waiting)
                self._news.set()

    async def load(self, name: str) -> None:
        """Have the model in memory, also when it could not be loaded a moment ago.

        Raises what `lease` does.
        """
        self._failures.pop(name, None)
        (await self.lease(name)).release()

    async def unload(self, name: str) -> bool:
        """Let go of the model; False if it was not there.

        Raises ModelInUse while somebody uses it, EngineError, CapacityError.
        """
        async with self._hands:
            if self._num_leases.get(name):
                raise ModelInUse(name)
            if name not in self._loader.sizes():
                return False
            self._leaving.add(name)
            try:
                await self._loader.unload(name)
            finally:
                self._leaving.discard(name)
            return True

    async def sweep(self) -> None:
        """Let go of the models that nobody has used for their time to live."""
        if self._ttl_seconds is None:
            return
        for name in expired(self.residents(), now=self._clock(), ttl_seconds=self._ttl_seconds):
            try:
                if await self.unload(name):
                    _log.info("model %r was not used for %g s and is unloaded", name, self._ttl_seconds)
            except (ModelInUse, EngineError, EngineRecovering, ShuttingDown):
                return

    def note_failure(self, name: str, error: ModelError) -> None:
        """Remember that the model cannot be loaded as it is."""
        self._failures[name] = error.without_path(name), self._clock()
        _log.error("model %r cannot be served: %s", name, error)

    def has_room_for(self, name: str) -> bool:
        """Whether the model could be loaded without another making way."""
        return self._victims(name) == ()

    def is_here(self, name: str) -> bool:
        """Whether a lease could be had without waiting."""
        return name in self._loader.sizes() and name not in self._leaving

    def state(self, name: str) -> ModelState:
        """How the model is."""
        if self._loading == name:
            return "loading"
        if name in self._loader.sizes():
            return "loaded"
        return "failed" if name in self._failures else "not_loaded"

    def problem(self, name: str) -> str | None:
        """Why the model could not be loaded the last time."""
        failure = self._failures.get(name)
        return failure[0] if failure else None

    @property
    def num_waiting(self) -> int:
        """Requests that wait for a model."""
        return len(self._waiting)

    def residents(self) -> list[Resident]:
        """Return the models in memory."""
        now = self._clock()
        return [
            Resident(
                name=name,
                num_bytes=num_bytes,
                num_leases=self._num_leases.get(name, 0),
                used_at=self._used_at.setdefault(name, now),
                is_pinned=name in self.pins,
            )
            for name, num_bytes in self._loader.sizes().items()
        ]

    async def close(self) -> None:
        """Move no more; who waits is told that the server shuts down."""
        self._fail_waiting(ShuttingDown("the server is shutting down"))
        if self._mover is not None:
            self._mover.cancel()
            await asyncio.wait({self._mover})

    def _refuse_failed(self, name: str) -> None:
        if name in self._failures and self._clock() - self._failures[name][1] < RETRY_SECONDS:
            raise ModelUnavailable(name, self._failures[name][0])

    def _on_lease(self, name: str, change: int) -> None:
        self._num_leases[name] = self._num_leases.get(name, 0) + change
        self._used_at[name] = self._clock()
        self._news.set()

    def _start_moving(self) -> None:
        if self._mover is None or self._mover.done():
            self._mover = asyncio.create_task(self._move(), name="model-mover")

    async def _move(self) -> None:
        try:
            while self._waiting:
                name = self._waiting[0].name
                try:
                    await self._bring(name)
                except MlxctlError as error:
                    self._fail_waiting(error, name)
                except asyncio.CancelledError:
                    raise
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # a panic of a native library is no Exception
                    _log.error("model %r was not loaded", name, exc_info=error)
                    self._fail_waiting(
                        ModelUnavailable(name, "the server failed unexpectedly; its log says why"), name
                    )
                else:
                    self._grant(name)
        finally:
            # Only a cancelled or broken mover leaves somebody behind.
            self._fail_waiting(EngineRecovering("the model was not loaded; try again in a moment"))

    async def _bring(self, name: str) -> None:
        """Have the model in memory, unless nobody waits for it any more."""
        victims = () if self.is_here(name) else self._victims(name)
        if victims is None:
            raise self._refusal(name)
        while not self.is_here(name):
            if not await self._let_go(victims, wanted=name):
                return
            try:
                await self._load(name)
            except NotEnoughMemory:
                # The others' conversations take room, too, and what a model takes may be known only
                # afterwards.
                victims = tuple(resident.name for resident in eviction_order(self._others(name))[:1])
                if not victims:
                    raise self._refusal(name) from None

    async def _load(self, name: str) -> None:
        async with self._hands:
            self._loading = name
            try:
                await self._loader.load(name)
                self._used_at[name] = self._clock()
                self._failures.pop(name, None)
                self.num_loads += 1
            except NotEnoughMemory:
                raise
            except ModelError as error:
                self.note_failure(name, error)
                raise ModelUnavailable(name, self._failures[name][0]) from None
            finally:
                self._loading = None

    async def _let_go(self, victims: tuple[str, ...], *, wanted: str) -> bool:
        """Unload these after their last lease; False when meanwhile nobody waits for `wanted` any more, and
        then they stay.
        """
        self._leaving.update(victims)
        try:
            while any(self._num_leases.get(victim) for victim in victims):
                self._news.clear()
                await self._news.wait()
                if not self._is_wanted(wanted):
                    return False
            for victim in victims:
                async with self._hands:
                    if victim in self._loader.sizes():
                        await self._loader.unload(victim)
                        self.num_evictions += 1
            return self._is_wanted(wanted)
        finally:
            self._leaving.difference_update(victims)

    def _is_wanted(self, name: str) -> bool:
        return any(waiting.name == name for waiting in self._waiting)

    def _others(self, name: str) -> list[Resident]:
        return [resident for resident in self.residents() if resident.name != name]

    def _victims(self, name: str) -> tuple[str, ...] | None:
        return choose_victims(
            self._others(name), num_bytes=self._loader.num_bytes(name), room=self._loader.room()
        )

    def _refusal(self, name: str) -> ModelUnavailable:
        num_bytes, room = self._loader.num_bytes(name), self._loader.room()
        return ModelUnavailable(name, explain_refusal(self._others(name), num_bytes=num_bytes, room=room))

    def _grant(self, name: str) -> None:
        granted = [waiting for waiting in self._waiting if waiting.name == name]
        self._waiting = [waiting for waiting in self._waiting if waiting.name != name]
        for waiting in granted:
            if not waiting.lease.done():
                waiting.lease.set_result(Lease(name, self._on_lease))

    def _fail_waiting(self, error: MlxctlError, name: str | None = None) -> None:
        """Tell those who wait for the model, or for any."""
        if isinstance(error, EngineDied):
            error = EngineRecovering(
                "the engine died while it loaded a model; try again in a moment", retry_after_seconds=2.0
            )
        failed = [waiting for waiting in self._waiting if name in (None, waiting.name)]
        self._waiting = [waiting for waiting in self._waiting if waiting not in failed]
        for waiting in failed:
            if not waiting.lease.done():
                waiting.lease.set_exception(error)
