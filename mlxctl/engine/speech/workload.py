"""Speech in the engine: a unit of work at a time.

MLX thread only.
"""

import time
from collections import deque
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from typing import ClassVar

from mlxctl.engine.host.failures import failure_message
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.loading.imports import import_in_thread
from mlxctl.engine.loading.loader import parameter_bytes, read_weights
from mlxctl.engine.speech.batch import SpeechBatch
from mlxctl.engine.speech.families import FAMILIES
from mlxctl.engine.wire.jobs import Speak, Spoken
from mlxctl.engine.workload import Workload, WorkloadContext
from mlxctl.ir import ModelSpec, SpeechGenerationTask
from mlxctl.ir.errors import describe_bytes

# Longest slice while no row decodes: a request that arrives meanwhile waits for it.
_ALONE_SECONDS = 0.05


class SpeechWorkload(Workload):
    """Speaks texts, those of one model together.

    A request begins when its model has a row for it and its memory is free.
    """

    task_type: ClassVar[type] = SpeechGenerationTask
    command_types: ClassVar[tuple[type, ...]] = (Speak,)

    def __init__(self, context: WorkloadContext) -> None:
        self._context = context
        self._batches: dict[str, SpeechBatch] = {}
        self._turns: deque[str] = deque()
        self._row_bytes: dict[str, int] = {}
        self._waiting: deque[Speak] = deque()
        self._running: dict[int, Speak] = {}

    @property
    def has_work(self) -> bool:
        return bool(self._waiting or self._running)

    def load(self, spec: ModelSpec) -> Generator[int, None, LoadedWeights]:
        assert isinstance(spec.task, SpeechGenerationTask)
        started = time.monotonic()
        family = FAMILIES[spec.task.recipe.family]
        for _ in import_in_thread(*family.modules):
            yield 0
        model = family.open_model(spec.path)
        yield from read_weights(model)
        return LoadedWeights(
            model=model,
            vocabulary_size=0,
            weights_bytes=parameter_bytes(model),
            # Its caches are those of its requests, and are not kept.
            kv_bytes_per_token=0,
            cache_kind="plain",
            can_batch=False,
            load_seconds=time.monotonic() - started,
        )

    def open_model(self, spec: ModelSpec, weights: LoadedWeights) -> None:
        assert isinstance(spec.task, SpeechGenerationTask)
        recipe = spec.task.recipe
        self._row_bytes[spec.name] = recipe.request_bytes
        self._batches[spec.name] = FAMILIES[recipe.family].create_batch(weights.model, recipe)
        self._turns.append(spec.name)

    def close_model(self, name: str) -> None:
        assert not self.is_in_use(name), "a model is closed after its requests"
        del self._batches[name], self._row_bytes[name]
        self._turns.remove(name)

    def is_in_use(self, name: str) -> bool:
        return any(job.model == name for job in (*self._waiting, *self._running.values()))

    def take(self, command: Speak) -> None:
        """Queue a text.

        One that needs more memory than there is fails at once.
        """
        batch = self._batches.get(command.model)
        if batch is None:
            self._fail(command, f"speech model {command.model!r} is not loaded")
            return
        needed, capacity = self._row_bytes[command.model], self._context.memory.cache_capacity_bytes
        if needed > capacity:
            limit = f"the memory limit leaves {describe_bytes(max(0, capacity))} beside the weights"
            self._fail(command, f"speech needs {describe_bytes(needed)}, but {limit}")
            return
        self._waiting.append(command)

    def cancel(self, ids: AbstractSet[int]) -> None:
        self._waiting = deque(job for job in self._waiting if job.job_id not in ids)
        for job_id in ids & self._running.keys():
            self._batches[self._running.pop(job_id).model].drop({job_id})

    def step(self) -> None:
        self._begin_waiting()
        if self._running:
            self._compute()
            self._context.memory.make_room()

    def _begin_waiting(self) -> None:
        """Begin the requests for which there are rows and memory.

        In the order of their arrival.
        """
        for job in list(self._waiting):
            batch = self._batches[job.model]
            if batch.num_rows >= batch.max_rows:
                continue
            needed = sum(self._row_bytes[each.model] for each in (job, *self._running.values()))
            if not self._context.memory.make_room(needed):
                if not self._running and not self._context.decode_load.has_rows():
                    self._waiting.remove(job)
                    self._fail(job, self._context.memory.describe_shortage(needed))
                return
            self._waiting.remove(job)
            self._running[job.job_id] = job
            batch.add(job)

    def _compute(self) -> None:
        """Compute parts of units for one slice; models take turns."""
        until = self._context.slice_end(alone_seconds=_ALONE_SECONDS)
        finely = self._context.decode_load.has_rows()
        while self._running:
            for spoken in self._next_batch().step(finely=finely):
                if spoken.is_last or spoken.failure is not None:
                    del self._running[spoken.job_id]
                self._context.publish(spoken)
            if time.monotonic() >= until:
                return

    def _next_batch(self) -> SpeechBatch:
        """Return the next batch that has rows; one has."""
        while True:
            self._turns.rotate(-1)
            if (batch := self._batches[self._turns[0]]).num_rows:
                return batch

    def _fail(self, job: Speak, failure: str) -> None:
        failure = failure_message(failure, job.request_id)
        self._context.publish(Spoken(job_id=job.job_id, failure=failure))
