"""The engine's loop, on the one thread that owns MLX.

It knows models by name and requests by number, and no text, HTTP or JSON. Commands and reports go through the
mailbox.
"""

import os
import time

import msgspec

from mlxctl.engine.audio.workload import TranscriptionWorkload
from mlxctl.engine.backend import current_backend, describe_device
from mlxctl.engine.embedding.workload import EmbeddingWorkload
from mlxctl.engine.generation.workload import GenerationWorkload
from mlxctl.engine.host.mailbox import FrontGoneError, Mailbox
from mlxctl.engine.host.process_memory import MachineMemory, ProcessOverhead, return_free_memory
from mlxctl.engine.host.waker import Waker
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading import loader
from mlxctl.engine.memory import EngineMemory
from mlxctl.engine.ranks.group import RankGroup
from mlxctl.engine.ranks.shared_records import split_shared_record
from mlxctl.engine.speech.workload import SpeechWorkload
from mlxctl.engine.wire.commands import Cancel, LoadModel, Stop, UnloadModel
from mlxctl.engine.wire.messages import AnyCommand
from mlxctl.engine.wire.reports import (
    Hello,
    LoadFailure,
    ModelFailed,
    ModelLoaded,
    ModelLoadStep,
    ModelUnloaded,
)
from mlxctl.engine.workload import Workload, WorkloadContext
from mlxctl.ir import ModelSpec
from mlxctl.ir.errors import ModelError, ModelNotFoundOnDisk, NotEnoughMemory, RanksUnavailable
from mlxctl.prefix_cache.disk.tier import DiskTier
from mlxctl.prefix_cache.packing import Packing
from mlxctl.prefix_cache.splitting import split_record
from mlxctl.state.settings import EngineSettings, cache_policy

WORKLOADS = (GenerationWorkload, EmbeddingWorkload, TranscriptionWorkload, SpeechWorkload)
"""All kinds of work, in the order of their steps."""

_IDLE_SECONDS = 1.0
# How long loading may delay steps, and commands while there are no steps.
_LOAD_SLICE_SECONDS = 0.02
_IDLE_LOAD_SLICE_SECONDS = 0.25
# Least time between two reports of a load.
_PROGRESS_SECONDS = 0.2


class EngineLoop:
    """Takes commands, loads models and steps the workloads.

    Blocks only when there is nothing to do.
    """

    def __init__(
        self,
        mailbox: Mailbox,
        settings: EngineSettings,
        *,
        blas: str,
        overhead: ProcessOverhead | None = None,
        group: RankGroup | None = None,
    ) -> None:
        """`overhead` counts in the memory limit; None for a shared process.

        With a `group` this is its rank 0.
        """
        self._mailbox = mailbox
        self._group = group
        self._blas = blas
        self._waker = Waker()
        backend = current_backend()
        self._memory = EngineMemory(
            backend=backend,
            limit_bytes=(settings.memory_limit_bytes or loader.default_memory_limit())
            // (group.hosts.num_beside(0) if group is not None else 1),
            prefix_cache_bytes=settings.prefix_cache_bytes,
            split=split_record if group is None else split_shared_record,
            disk=self._open_disk(settings),
            packing=Packing.of(cache_policy(settings)),
            overhead=overhead,
            machine=None if overhead is None else MachineMemory(),
        )
        context = WorkloadContext(
            settings=settings,
            backend=backend,
            memory=self._memory,
            publish=mailbox.publish,
            wake=self._waker.wake,
            group=group,
        )
        self._workloads: list[Workload] = [create(context) for create in WORKLOADS]
        self._by_command: dict[type, Workload] = {
            kind: workload for workload in self._workloads for kind in workload.command_types
        }
        self._by_model: dict[str, Workload] = {}
        self._to_load: list[ModelSpec] = []
        self._progress_at = 0.0
        self._holds_free_memory = self._is_busy = False
        self._is_stopping = False

    def run(self) -> None:
        """Serve until the front sends Stop or closes the connection."""
        try:
            self._greet()
            while not self._is_stopping:
                self.take_commands()
                self.load()
                for workload in self._workloads:
                    workload.step()
        except FrontGoneError:
            pass
        finally:
            for workload in self._workloads:
                workload.close()
            self._mailbox.close()
            if self._group is not None:
                self._group.close()
        self._memory.prefixes.close()
        self._waker.close()

    def take_commands(self) -> None:
        """Carry out the commands that came since the last turn.

        Waits for one when idle.
        """
        is_idle = not self._to_load and self._memory.loading is None
        is_idle = is_idle and all(work.is_blocked or not work.has_work for work in self._workloads)
        if is_idle:
            self._trim()
        else:
            self._is_busy = True
        commands = self._mailbox.take(timeout_seconds=_IDLE_SECONDS if is_idle else 0, waker=self._waker)
        for command in commands:
            self._carry_out(command)
        if is_idle and not commands:
            self._maintain()

    def load(self) -> None:
        """Load the next slice of a model, between two steps."""
        if self._memory.loading is None:
            if not self._to_load:
                return
            following = self._to_load.pop(0)
            if self._group is not None:
                try:
                    self._group.split_of(following)
                except RanksUnavailable as error:
                    self._mailbox.publish(_failed_load(following.name, error))
                    return
                # Each rank reads about its part.
                weights_bytes = following.weights_bytes // self._group.size
                following = msgspec.structs.replace(following, weights_bytes=weights_bytes)
            self._memory.begin_load(following, self._workload_of(following).load)
        spec = self._memory.loading
        assert spec is not None
        has_work = any(workload.has_work for workload in self._workloads)
        try:
            weights = self._memory.load_step(
                seconds=_LOAD_SLICE_SECONDS if has_work else _IDLE_LOAD_SLICE_SECONDS
            )
            if weights is not None:
                self._workload_of(spec).open_model(spec, weights)
        except ModelError as error:
            self._memory.unload(spec.name)
            self._mailbox.publish(_failed_load(spec.name, error))
            return
        if weights is not None:
            self._by_model[spec.name] = self._workload_of(spec)
            self._mailbox.publish(_loaded(spec.name, weights))
        elif time.monotonic() - self._progress_at >= _PROGRESS_SECONDS:
            self._progress_at = time.monotonic()
            self._mailbox.publish(ModelLoadStep(name=spec.name, num_bytes=self._memory.num_bytes_loaded))

    def _workload_of(self, spec: ModelSpec) -> Workload:
        return next(workload for workload in self._workloads if isinstance(spec.task, workload.task_type))

    def _trim(self) -> None:
        """Free the memory that the finished work left.

        Allocator memory is returned to the system a moment later, by `_maintain`.
        """
        if self._is_busy:
            self._is_busy, self._holds_free_memory = False, True
            if not any(workload.has_work for workload in self._workloads):
                self._memory.trim()

    def _maintain(self) -> None:
        """Drop expired prefixes, and return free memory to the system.

        Memory is returned once after each busy period.
        """
        self._memory.prefixes.expire()
        if self._holds_free_memory:
            return_free_memory()
            self._holds_free_memory = False

    def _open_disk(self, settings: EngineSettings) -> DiskTier | None:
        # What other ranks hold is not written.
        if (
            self._group is not None
            or settings.cache_dir is None
            or not settings.cache_disk_bytes
            or settings.prefix_cache_bytes == 0
        ):
            return None
        return DiskTier.open(
            settings.cache_dir,
            max_bytes=settings.cache_disk_bytes,
            min_free_bytes=settings.cache_min_free_bytes,
            ttl_seconds=settings.cache_disk_ttl_seconds,
            wake=self._waker.wake,
        )

    def _carry_out(self, command: AnyCommand) -> None:
        match command:
            case Cancel():
                ids = set(command.ids)
                for workload in self._workloads:
                    workload.cancel(ids)
            case LoadModel():
                self._to_load.append(command.spec)
            case UnloadModel():
                self._unload(command.name)
            case Stop():
                self._is_stopping = True
            case _:
                self._by_command[type(command)].take(command)

    def _unload(self, name: str) -> None:
        self._to_load = [spec for spec in self._to_load if spec.name != name]
        workload = self._by_model.get(name)
        if workload is not None and workload.is_in_use(name):
            self._mailbox.publish(ModelUnloaded(name=name, is_in_use=True))
            return
        if workload is not None:
            workload.close_model(name)
            del self._by_model[name]
        weights_bytes, freed_bytes = self._memory.unload(name)
        self._mailbox.publish(ModelUnloaded(name=name, weights_bytes=weights_bytes, freed_bytes=freed_bytes))

    def _greet(self) -> None:
        mlx_version, mlx_lm_version = loader.versions()
        self._mailbox.publish(
            Hello(
                pid=os.getpid(),
                device=describe_device(),
                backend=current_backend().name,
                mlx_version=mlx_version,
                mlx_lm_version=mlx_lm_version,
                blas=self._blas,
                memory_limit_bytes=self._memory.limit_bytes,
                prefix_cache_bytes=self._memory.prefixes.index.max_bytes,
            )
        )


def _loaded(name: str, weights: LoadedWeights) -> ModelLoaded:
    return ModelLoaded(
        name=name,
        vocabulary_size=weights.vocabulary_size,
        weights_bytes=weights.weights_bytes,
        kv_bytes_per_token=weights.kv_bytes_per_token,
        kv_windows=list(weights.kv_windows),
        work_bytes_per_token=weights.conversation.work_bytes_per_token,
        fixed_bytes=weights.conversation.fixed_bytes,
        kv_bits=weights.kv_bits,
        cache_kind=weights.cache_kind,
        load_seconds=weights.load_seconds,
        dimensions=weights.dimensions,
        encoder_problem=weights.encoder_problem,
        cache_limits=weights.cache_limits,
    )


def _failed_load(name: str, error: ModelError) -> ModelFailed:
    if isinstance(error, RanksUnavailable):
        return ModelFailed(name=name, failure="ranks", message=str(error))
    if isinstance(error, NotEnoughMemory):
        return ModelFailed(
            name=name,
            failure="not_enough_memory",
            message=str(error),
            needed_bytes=error.needed_bytes,
            limit_bytes=error.limit_bytes,
        )
    failure: LoadFailure = "not_found" if isinstance(error, ModelNotFoundOnDisk) else "broken"
    return ModelFailed(name=name, failure=failure, message=str(error))
