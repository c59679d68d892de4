"""Model loads and unloads that the front waits for. Event-loop thread only."""

import asyncio
from pathlib import Path
from typing import Any

from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.wire.commands import LoadModel, UnloadModel
from mlxctl.engine.wire.reports import ModelFailed, ModelLoaded, ModelLoadStep, ModelUnloaded
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import (
    BrokenModel,
    EngineDied,
    ModelError,
    ModelInUse,
    ModelNotFoundOnDisk,
    NotEnoughMemory,
    RanksUnavailable,
)

# An engine that does not unload a model within this time hangs.
_ANSWER_SECONDS = 60.0


class PendingModelLoads:
    """Models of the running engine, and open load and unload commands.

    There is one command for a model at a time. `num_bytes_read` has the bytes in memory of the models that
    are being loaded.
    """

    def __init__(self, *, load_timeout_seconds: float) -> None:
        self.loaded: dict[str, ModelLoaded] = {}
        self.num_bytes_read: dict[str, int] = {}
        self._load_timeout_seconds = load_timeout_seconds
        self._loads: dict[str, tuple[ModelSpec, asyncio.Future[ModelLoaded]]] = {}
        self._unloads: dict[str, asyncio.Future[ModelUnloaded]] = {}

    async def load(self, connection: EngineConnection, spec: ModelSpec) -> ModelLoaded:
        """Load a model beside the others.

        Raises its ModelError, and EngineDied. Cancelling the task does not stop the load.
        """
        answer: asyncio.Future[ModelLoaded] = asyncio.get_running_loop().create_future()
        self._loads[spec.name] = spec, answer
        connection.send(LoadModel(spec=spec))
        if await _is_answered(
            connection, answer, seconds=self._load_timeout_seconds, what=f"loading model {spec.name!r}"
        ):
            return answer.result()
        self._end_load(spec.name)
        await self.unload(connection, spec.name)
        limit = f"{self._load_timeout_seconds:g} s"
        raise BrokenModel(spec.path, f"model {str(spec.path)!r} takes longer to load than {limit}")

    async def unload(self, connection: EngineConnection, name: str) -> ModelUnloaded:
        """Free a model, or stop loading it. Raises ModelInUse, EngineDied."""
        answer: asyncio.Future[ModelUnloaded] = asyncio.get_running_loop().create_future()
        self._unloads[name] = answer
        connection.send(UnloadModel(name=name))
        if not await _is_answered(
            connection, answer, seconds=_ANSWER_SECONDS, what=f"unloading model {name!r}"
        ):
            connection.close()
            raise EngineDied(f"unloading model {name!r} failed: the engine does not answer")
        return answer.result()

    def clear(self) -> None:
        """Forget all models: the engine has ended."""
        self.loaded.clear()
        self.num_bytes_read.clear()
        self._loads.clear()
        self._unloads.clear()

    def on_progress(self, report: ModelLoadStep) -> None:
        """Take the report of a load in progress."""
        if report.name in self._loads:
            self.num_bytes_read[report.name] = report.num_bytes

    def on_loaded(self, report: ModelLoaded) -> None:
        """Take the report of a successful load."""
        self.loaded[report.name] = report
        if load := self._end_load(report.name):
            _, answer = load
            if not answer.done():
                answer.set_result(report)

    def on_failed(self, report: ModelFailed) -> None:
        """Take the report of a failed load."""
        if load := self._end_load(report.name):
            spec, answer = load
            if not answer.done():
                answer.set_exception(_model_error(spec.path, report))

    def on_unloaded(self, report: ModelUnloaded) -> None:
        """Take the report of an unload."""
        if not report.is_in_use:
            self.loaded.pop(report.name, None)
            self._end_load(report.name)
        answer = self._unloads.pop(report.name, None)
        if answer is None or answer.done():
            return
        if report.is_in_use:
            answer.set_exception(ModelInUse(report.name))
        else:
            answer.set_result(report)

    def _end_load(self, name: str) -> "tuple[ModelSpec, asyncio.Future[ModelLoaded]] | None":
        self.num_bytes_read.pop(name, None)
        return self._loads.pop(name, None)


async def _is_answered(
    connection: EngineConnection, answer: "asyncio.Future[Any]", *, seconds: float, what: str
) -> bool:
    """Wait for a report up to `seconds`.

    Raises EngineDied when the engine ends.
    """
    lost = asyncio.ensure_future(connection.lost.wait())
    try:
        await asyncio.wait({answer, lost}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
    finally:
        lost.cancel()
    if not answer.done() and connection.lost.is_set():
        raise EngineDied(f"{what} failed: the engine died")
    return answer.done()


def _model_error(path: Path, report: ModelFailed) -> ModelError:
    match report.failure:
        case "not_enough_memory":
            return NotEnoughMemory(path, needed_bytes=report.needed_bytes, limit_bytes=report.limit_bytes)
        case "not_found":
            return ModelNotFoundOnDisk(path, report.message)
        case "ranks":
            return RanksUnavailable(path, report.message)
        case "broken":
            return BrokenModel(path, report.message)
