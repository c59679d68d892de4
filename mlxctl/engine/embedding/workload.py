"""Embedding in the engine: one slice of a job at a time.

MLX thread only.
"""

import time
from array import array
from collections.abc import Generator
from collections.abc import Set as AbstractSet
from typing import ClassVar

from mlxctl.engine.embedding.embedder import Embedder
from mlxctl.engine.embedding.loading import create_embedder, load_embedding_model
from mlxctl.engine.embedding.queue import EmbeddingJob, EmbeddingQueue
from mlxctl.engine.host.failures import FOREIGN_ERRORS, failure_message
from mlxctl.engine.loaded_weights import LoadedWeights
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.wire.jobs import Embed, Embedded
from mlxctl.engine.workload import Workload, WorkloadContext
from mlxctl.ir import EmbeddingTask, ModelSpec
from mlxctl.ir.errors import describe_bytes

# A slice of fewer tokens takes hardly less time.
_MIN_SLICE_TOKENS = 16


class EmbeddingWorkload(Workload):
    """Embeds the texts of open jobs, slice by slice.

    A slice takes as long as one of a prompt may.
    """

    task_type: ClassVar[type] = EmbeddingTask
    command_types: ClassVar[tuple[type, ...]] = (Embed,)

    def __init__(self, context: WorkloadContext) -> None:
        self._context = context
        self._queue = EmbeddingQueue()
        self._embedders: dict[str, Embedder] = {}
        self._pacers: dict[str, PrefillPacer] = {}
        context.decode_load.observers.append(self._observe_decode)

    @property
    def has_work(self) -> bool:
        return self._queue.has_work

    def load(self, spec: ModelSpec) -> Generator[int, None, LoadedWeights]:
        assert isinstance(spec.task, EmbeddingTask)
        return load_embedding_model(spec, spec.task.recipe)

    def open_model(self, spec: ModelSpec, weights: LoadedWeights) -> None:
        assert isinstance(spec.task, EmbeddingTask)
        settings = self._context.settings
        self._embedders[spec.name] = create_embedder(weights, spec.task.recipe)
        self._pacers[spec.name] = PrefillPacer(
            turn_seconds=settings.prefill_turn_seconds,
            max_tokens=settings.prefill_pass_max_tokens,
        )

    def close_model(self, name: str) -> None:
        assert not self.is_in_use(name), "a model is closed after its jobs"
        del self._embedders[name], self._pacers[name]

    def is_in_use(self, name: str) -> bool:
        return self._queue.has_work_for(name)

    def take(self, command: Embed) -> None:
        """Queue an embedding job.

        A job whose longest text needs more memory than there is fails at once.
        """
        embedder = self._embedders.get(command.model)
        if embedder is None:
            self._fail(command, f"embedding model {command.model!r} is not loaded")
            return
        texts = [array("I", text) for text in command.texts]
        needed, capacity = embedder.bytes_for(max(map(len, texts))), self._context.memory.cache_capacity_bytes
        if needed > capacity:
            limit = f"the memory limit leaves {describe_bytes(capacity)} beside the weights"
            self._fail(command, f"the longest text needs {describe_bytes(needed)}, but {limit}")
            return
        self._queue.add(
            EmbeddingJob(
                job_id=command.job_id,
                request_id=command.request_id,
                model=command.model,
                texts=texts,
                dimensions=command.dimensions,
                can_be_split=embedder.can_split_texts,
            )
        )

    def cancel(self, ids: AbstractSet[int]) -> None:
        for job in self._queue.drop(ids):
            self._embedders[job.model].drop(job.job_id)

    def step(self) -> None:
        if self._queue.has_work:
            self._embed()
            self._context.memory.make_room()

    def _observe_decode(self, seconds: float, alone: bool) -> None:
        for pacer in self._pacers.values():
            pacer.observe_decode(seconds, alone=alone)

    def _embed(self) -> None:
        """Compute one slice, or some layers of it."""
        started, name = time.monotonic(), self._queue.next_model
        rows = int(self._context.decode_load.has_rows())
        pacer = self._pacers[name]
        max_tokens = max(pacer.pass_tokens(rows=rows), _MIN_SLICE_TOKENS)
        part = self._queue.take(max_tokens=max_tokens)
        job_id = part.job.job_id
        try:
            computed = self._embedders[name].run(part, max_tokens=max_tokens)
        except FOREIGN_ERRORS as error:
            # The job's other texts would most likely fail, too, and a partial result is useless.
            self.cancel({job_id})
            self._embedders[name].drop(job_id)
            self._fail(part.job, f"embedding failed: {error}")
            return
        pacer.observe_prefill(computed.num_tokens, time.monotonic() - started, rows=rows)
        if part.is_last_of_text and not computed.vectors:
            self._queue.put_back(part)
        places = list(part.places) if computed.vectors else []
        self._context.publish(Embedded(job_id=job_id, places=places, vectors=computed.vectors))

    def _fail(self, job: Embed | EmbeddingJob, failure: str) -> None:
        failure = failure_message(failure, job.request_id)
        self._context.publish(Embedded(job_id=job.job_id, failure=failure))
