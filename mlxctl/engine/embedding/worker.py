"""Embeds between the steps of the others: one slice at a time, as long as a slice of a prompt may take.

MLX thread only.
"""

import time
from array import array
from collections.abc import Iterable

from mlxctl.engine.embedding.embedder import Embedder
from mlxctl.engine.embedding.queue import EmbeddingJob, EmbeddingQueue, EmbeddingSlice
from mlxctl.engine.foreign_errors import FOREIGN_ERRORS
from mlxctl.engine.scheduling.prefill_pacer import PrefillPacer
from mlxctl.engine.wire.messages import Embed, Embedded
from mlxctl.errors import describe_bytes

# A slice of fewer tokens takes hardly less time.
_MIN_SLICE_TOKENS = 16


class EmbeddingWorker:
    """The embedding models that are loaded, and the jobs for them."""

    def __init__(self, *, slice_seconds: float, max_tokens: int) -> None:
        """As in PrefillPacer."""
        self._slice_seconds = slice_seconds
        self._max_tokens = max_tokens
        self._queue = EmbeddingQueue()
        self._embedders: dict[str, Embedder] = {}
        self._pacers: dict[str, PrefillPacer] = {}

    @property
    def has_work(self) -> bool:
        """Whether a step would do anything."""
        return self._queue.has_work

    def open_model(self, name: str, embedder: Embedder) -> None:
        """Accept jobs for the model from now on."""
        self._embedders[name] = embedder
        self._pacers[name] = PrefillPacer(slice_seconds=self._slice_seconds, max_tokens=self._max_tokens)

    def close_model(self, name: str) -> None:
        """Let go of a model, which must not be in use; one that is not here is no embedding model."""
        assert not self.is_in_use(name), "a model goes after its jobs"
        self._embedders.pop(name, None)
        self._pacers.pop(name, None)

    def is_in_use(self, name: str) -> bool:
        """Whether jobs for the model are open."""
        return self._queue.has_work_for(name)

    def add(self, command: Embed, *, cache_capacity_bytes: int) -> Embedded | None:
        """Take a job, or say why not: a long text needs memory while it is read."""
        embedder = self._embedders.get(command.model)
        if embedder is None:
            return Embedded(job_id=command.job_id, failure=f"embedding model {command.model!r} is not loaded")
        texts = [array("I", text) for text in command.texts]
        needed = embedder.bytes_for(max(map(len, texts)))
        if needed > cache_capacity_bytes:
            limit = f"the memory limit leaves {describe_bytes(cache_capacity_bytes)} beside the weights"
            failure = f"the longest text needs {describe_bytes(needed)}, but {limit}"
            return Embedded(job_id=command.job_id, failure=failure)
        job = EmbeddingJob(
            job_id=command.job_id,
            model=command.model,
            texts=texts,
            dimensions=command.dimensions,
            may_be_cut=embedder.reads_in_parts,
        )
        self._queue.add(job)
        return None

    def drop(self, job_ids: Iterable[int]) -> None:
        """Forget these jobs; unknown ids have ended already."""
        for job in self._queue.drop(job_ids):
            self._embedders[job.model].drop(job.job_id)

    def observe_decode(self, seconds: float, *, alone: bool) -> None:
        """Take the duration of a decode step of any model, which is what a slice is measured by."""
        for pacer in self._pacers.values():
            pacer.observe_decode(seconds, alone=alone)

    def step(self, *, contended: bool) -> Embedded:
        """Compute one slice, or some layers of it, and say what came of it.

        Needs `has_work`; `contended` says that rows wait for their next token.
        """
        started, name = time.monotonic(), self._queue.next_model
        pacer = self._pacers[name]
        max_tokens = max(pacer.chunk_tokens(rows=int(contended)), _MIN_SLICE_TOKENS)
        part = self._queue.take(max_tokens=max_tokens)
        try:
            computed = self._embedders[name].run(part, max_tokens=max_tokens)
        except FOREIGN_ERRORS as error:
            # Its other texts would most likely fail as this one, and a half answer is none.
            return self._give_up(part, error)
        pacer.observe_prefill(computed.num_tokens, time.monotonic() - started, rows=int(contended))
        if part.is_last_of_text and not computed.vectors:
            self._queue.put_back(part)
        places = list(part.places) if computed.vectors else []
        return Embedded(job_id=part.job.job_id, places=places, vectors=computed.vectors)

    def _give_up(self, part: EmbeddingSlice, error: Exception) -> Embedded:
        job_id = part.job.job_id
        self._queue.drop([job_id])
        self._embedders[part.job.model].drop(job_id)
        return Embedded(job_id=job_id, failure=f"embedding failed: {error}")
