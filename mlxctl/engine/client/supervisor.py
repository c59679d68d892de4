"""Starts the engine, watches it, and starts it again. Event-loop thread only.

When the engine dies, open requests end with EngineDied, and new ones are refused until the next engine
has loaded its models. It counts as dead when open requests get nothing for `stall_seconds`.
"""

import asyncio
import contextlib
import logging
import time
from collections.abc import Mapping
from typing import Literal

from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.client.launcher import Launcher
from mlxctl.engine.client.open_requests import OpenRequests
from mlxctl.engine.client.pending_loads import PendingModelLoads
from mlxctl.engine.client.restart_delay import RestartDelay
from mlxctl.engine.wire.commands import ConfigureCache, ConfigureScheduler, Stop
from mlxctl.engine.wire.messages import AnyReport
from mlxctl.engine.wire.reports import Hello, ModelFailed, ModelLoaded, ModelLoadStep, ModelUnloaded
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import (
    EngineDied,
    EngineRecovering,
    MlxctlError,
    ModelError,
    ModelLoading,
    RanksUnavailable,
    SettingsError,
    ShuttingDown,
)
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.state.settings import EngineSettings, cache_policy

EngineStatus = Literal["starting", "ready", "recovering", "draining", "failed"]

_MAX_FIRST_STARTS = 3
# A crashed engine ends soon after its socket is closed; its exit status says why.
_EXIT_GRACE_SECONDS = 2.0
# The engine may take 8 s of it to write its prefix cache to disk.
_END_GRACE_SECONDS = 12.0

_log = logging.getLogger(__name__)


class EngineSupervisor:
    """Starts the engine and its models, again after each death.

    Reports go to `requests`.
    """

    def __init__(
        self,
        launcher: Launcher,
        settings: EngineSettings,
        requests: OpenRequests,
        policy: SchedulerPolicy,
    ) -> None:
        """`policy` and `cache_policy` are sent to every engine at its start."""
        self.policy = policy
        self.cache_policy = cache_policy(settings)
        self._launcher = launcher
        self._settings = settings
        self._requests = requests
        self._specs: list[ModelSpec] = []
        self._connection: EngineConnection | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._model_loads = PendingModelLoads(load_timeout_seconds=settings.load_timeout_seconds)
        self._has_greeted = asyncio.Event()
        self._is_ready = asyncio.Event()
        self._was_ready = False
        self._has_lost = asyncio.Event()
        self._failure: MlxctlError | None = None
        self._restart_delay = RestartDelay(max_seconds=settings.restart_backoff_max_seconds)
        self._has_come_up = False
        self.status: EngineStatus = "starting"
        self.hello: Hello | None = None
        self.num_restarts = 0
        self.lost: dict[str, ModelError] = {}
        """Models of the start that a restarted engine could not load, by name, with the error."""

    async def start(self, specs: list[ModelSpec]) -> None:
        """Start the engine with these models, now and after every death.

        `wait_ready` waits for them. Called again, for example after `wait_ready` raised a ModelError, it ends
        the engine and starts another.
        """
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
            self._failure, self.status, self._was_ready = None, "starting", False
            self._is_ready.clear()
            self._model_loads.clear()
        self._specs = specs
        self._supervisor = asyncio.create_task(self._supervise(), name="engine-supervisor")

    async def wait_ready(self) -> None:
        """Wait until the models are loaded for the first time.

        Raises the ModelError of a model that cannot be loaded, and EngineDied.
        """
        await self._is_ready.wait()
        if self._failure is not None:
            raise self._failure

    @property
    def loaded(self) -> Mapping[str, ModelLoaded]:
        """The models of the running engine, by name."""
        return self._model_loads.loaded

    def num_bytes_read(self, name: str) -> int:
        """Return how many bytes of a loading model are in memory."""
        return self._model_loads.num_bytes_read.get(name, 0)

    async def load(self, spec: ModelSpec) -> ModelLoaded:
        """Load a model beside the others.

        Raises its ModelError, EngineDied, ModelLoading, EngineRecovering, ShuttingDown.
        """
        loaded = await self._model_loads.load(self.ready_connection(), spec)
        self.lost.pop(spec.name, None)
        if not self.lost:
            self._has_lost.clear()
        return loaded

    async def unload(self, name: str) -> ModelUnloaded:
        """Unload a model from the engine.

        Raises ModelInUse while it has sequences, EngineDied, ModelLoading, EngineRecovering, ShuttingDown.
        """
        return await self._model_loads.unload(self.ready_connection(), name)

    async def wait_lost(self) -> None:
        """Wait until a model of the start could not be loaded again."""
        await self._has_lost.wait()

    async def stop(self, *, drain_seconds: float) -> None:
        """Refuse new requests, drain the open ones, then end the engine.

        Open requests may finish for up to `drain_seconds`.
        """
        self.status = "draining"
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(drain_seconds):
                await self._requests.wait_idle()
        self._requests.fail_all(ShuttingDown("the server is shutting down"))
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
        self._is_ready.set()

    @property
    def connection(self) -> EngineConnection | None:
        """Connection of the running engine."""
        return self._connection

    def ready_connection(self, *, even_draining: bool = False) -> EngineConnection:
        """Return the connection of an engine that takes requests.

        Raises ModelLoading, EngineRecovering, ShuttingDown.
        """
        if self.status == "draining" and not even_draining:
            raise ShuttingDown("the server is shutting down", retry_after_seconds=5.0)
        if self._connection is None or not self._is_ready.is_set() or self._failure is not None:
            if self._was_ready:
                raise EngineRecovering(
                    "the engine is starting again; try again in a moment", retry_after_seconds=2.0
                )
            raise ModelLoading("the engine is starting; try again in a moment", retry_after_seconds=2.0)
        return self._connection

    async def _supervise(self) -> None:
        watchdog = asyncio.create_task(self._watch_delivery(), name="engine-watchdog")
        try:
            while True:
                await self._run_once()
                if self._failure is not None:
                    return
                await self._pause()
        finally:
            watchdog.cancel()
            await self._shut_down()

    async def _run_once(self) -> None:
        """Run one engine from launch to its end."""
        self._has_come_up = False
        try:
            self._has_greeted.clear()
            connection = await EngineConnection.open(await self._launcher.launch(), self._on_report)
            self._connection = connection
            await self._wait_greeted(connection)
            connection.send(ConfigureScheduler(policy=self.policy))
            connection.send(ConfigureCache(policy=self.cache_policy))
            await self._load_models(connection)
            self._has_come_up = True
            await connection.lost.wait()
        except MlxctlError as error:
            self._on_failed_start(error)
        self._after_death()
        how = await self._launcher.end(
            grace_seconds=_EXIT_GRACE_SECONDS if self._failure is None else _END_GRACE_SECONDS
        )
        if how is not None and not isinstance(self._failure, ModelError):
            _log.error("engine: ended; %s", how)

    async def _wait_greeted(self, connection: EngineConnection) -> None:
        """Wait for the engine's Hello. Raises EngineDied."""
        waits = [asyncio.ensure_future(event.wait()) for event in (self._has_greeted, connection.lost)]
        try:
            await asyncio.wait(
                waits, timeout=self._settings.load_timeout_seconds, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for wait in waits:
                wait.cancel()
        if not self._has_greeted.is_set():
            connection.close()
            raise EngineDied("the engine ended, or did not answer, while it started")

    async def _load_models(self, connection: EngineConnection) -> None:
        self.lost.clear()
        self._has_lost.clear()
        for spec in self._specs:
            try:
                await self._model_loads.load(connection, spec)
            except ModelError as error:
                # After the first start a model that fails must not stop the others. Without all ranks no
                # model can be served.
                if not self._was_ready or isinstance(error, RanksUnavailable):
                    connection.close()
                    raise
                _log.error("engine: %s", error)
                self.lost[spec.name] = error
                self._has_lost.set()
        self._requests.note_delivery()
        if self.status != "draining":
            self.status = "ready"
        self._was_ready = True
        self._is_ready.set()

    def _on_failed_start(self, error: MlxctlError) -> None:
        # Before the first success the operator has to fix the model or the engine; after it, the engine is
        # started again.
        is_hopeless = (
            isinstance(error, ModelError | SettingsError) or self.num_restarts + 1 >= _MAX_FIRST_STARTS
        )
        if not self._was_ready and is_hopeless:
            self._failure = error
            self.status = "failed"
            self._is_ready.set()
        else:
            _log.error("engine: %s", error)

    def _after_death(self) -> None:
        self._connection = None
        self._model_loads.clear()
        if self._failure is None:
            self._is_ready.clear()
            if self.status != "draining":
                self.status = "recovering"
        self._requests.fail_all(EngineDied("the engine died while it worked on this request"))

    async def _pause(self) -> None:
        self.num_restarts += 1
        delay = self._restart_delay
        pause = delay.after_death(now=time.monotonic()) if self._has_come_up else delay.after_failed_start()
        _log.warning("engine: starting again %s", f"in {pause:.2f} s" if pause else "at once")
        await asyncio.sleep(pause)

    async def _shut_down(self) -> None:
        if self._connection is not None:
            self._connection.send(Stop())
            await self._launcher.end(grace_seconds=_END_GRACE_SECONDS)
            self._connection.close()
            self._connection = None
        else:
            await self._launcher.end(grace_seconds=0.0)

    async def _watch_delivery(self) -> None:
        """Kill an engine with open requests that delivers nothing."""
        stall = self._settings.stall_seconds
        while True:
            await asyncio.sleep(min(stall / 4, 5.0))
            if (
                self.status == "ready"
                and self._requests.num_running
                and time.monotonic() - self._requests.last_delivery > stall
            ):
                _log.error(
                    "engine: no tokens for %.0f s while %d requests run; restarting it",
                    stall,
                    self._requests.num_running,
                )
                await self._launcher.end(grace_seconds=0.0)

    def _on_report(self, report: AnyReport) -> None:
        match report:
            case Hello():
                self.hello = report
                self._has_greeted.set()
            case ModelLoadStep():
                self._model_loads.on_progress(report)
            case ModelLoaded():
                self._model_loads.on_loaded(report)
            case ModelFailed():
                self._model_loads.on_failed(report)
            case ModelUnloaded():
                self._model_loads.on_unloaded(report)
            case _:
                self._requests.take(report)
