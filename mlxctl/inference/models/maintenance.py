"""Background tasks of the models: preloading, reloading and expiry. Event-loop thread only."""

import asyncio
import logging
from contextlib import suppress
from math import inf

from mlxctl.engine import EngineClient
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.residency import ModelResidency
from mlxctl.ir.errors import CapacityError, MlxctlError, ModelUnavailable

_EXPIRY_RETRY_SECONDS, _MAX_EXPIRY_PAUSE_SECONDS = 1.0, 5.0
_FIRST_RETRY_PAUSE_SECONDS, _MAX_RETRY_PAUSE_SECONDS = 1.0, 60.0

_log = logging.getLogger(__name__)


class ModelMaintenance:
    """Loads and unloads models that no request waits for.

    With `preloads`, every named model that fits beside the others is loaded at the start. Models that
    were lost when an engine died are loaded again, and models past their time to live are unloaded.
    """

    def __init__(
        self, engine: EngineClient, registry: ModelRegistry, residency: ModelResidency, *, preloads: bool
    ) -> None:
        self._engine = engine
        self._registry = registry
        self._residency = residency
        self._preloads = preloads
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Start the tasks; the engine must have started."""
        self._tasks.append(asyncio.create_task(self._reload_lost(), name="reload-lost-models"))
        if self._preloads:
            self._tasks.append(asyncio.create_task(self._preload(), name="preload-models"))
        self._tasks.append(asyncio.create_task(self._expire(), name="expire-models"))

    def stop(self) -> None:
        """Cancel the tasks, without waiting. Idempotent."""
        for task in self._tasks:
            task.cancel()

    async def _preload(self) -> None:
        for model in self._registry.models:
            if model.from_library or self._residency.is_ready(model.name):
                continue
            if not self._residency.fits(model.name):
                _log.warning(
                    "model %r is not loaded at the start: it does not fit in memory beside the others",
                    model.name,
                )
                continue
            try:
                await self._residency.load(model.name)
            except (ModelUnavailable, CapacityError) as error:
                _log.warning("%s", error)

    async def _reload_lost(self) -> None:
        """Load lost models again, with growing pauses between attempts."""
        pause_seconds = _FIRST_RETRY_PAUSE_SECONDS
        while True:
            if not self._engine.lost:
                pause_seconds = _FIRST_RETRY_PAUSE_SECONDS
                await self._engine.wait_lost()
            await asyncio.sleep(pause_seconds)
            pause_seconds = min(2 * pause_seconds, _MAX_RETRY_PAUSE_SECONDS)
            for name in tuple(self._engine.lost):
                try:
                    await self._residency.load(name)
                except MlxctlError as error:
                    _log.warning("model %r is not loaded again yet: %s", name, error)

    async def _expire(self) -> None:
        """Unload models whose time to live ends."""
        while True:
            await self._residency.unload_expired()
            pause_seconds = self._residency.seconds_to_expiry()
            if pause_seconds == 0:
                # The model could not be unloaded now.
                await asyncio.sleep(_EXPIRY_RETRY_SECONDS)
                continue
            with suppress(TimeoutError):
                # Models may also come back with an engine, which changes no lease.
                async with asyncio.timeout(min(pause_seconds or inf, _MAX_EXPIRY_PAUSE_SECONDS)):
                    await self._residency.wait_use_changed()
