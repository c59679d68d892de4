"""The jobs that the front has given to the engine and waits for. Event-loop thread only."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mlxctl.engine.messages import Embedded
from mlxctl.errors import MlxctlError, SequenceFailed


@dataclass(slots=True, eq=False)
class _OpenJob:
    vectors: list[bytes | None]
    num_left: int
    answer: asyncio.Future[list[bytes]]


class OpenJobs:
    """Collects what the engine sends, text by text; `on_empty` is called when the last job has ended."""

    def __init__(self, *, on_empty: Callable[[], None]) -> None:
        self._jobs: dict[int, _OpenJob] = {}
        self._on_empty = on_empty

    def __len__(self) -> int:
        return len(self._jobs)

    def open(self, job_id: int, *, num_texts: int) -> asyncio.Future[list[bytes]]:
        """Expect that many vectors; the future gives them in the order of the texts, or raises SequenceFailed or what `fail_all` is
        given."""
        job = _OpenJob([None] * num_texts, num_texts, asyncio.get_running_loop().create_future())
        self._jobs[job_id] = job
        return job.answer

    def close(self, job_id: int) -> bool:
        """Expect nothing more of a job; return whether it was still open."""
        was_open = self._jobs.pop(job_id, None) is not None
        if was_open and not self._jobs:
            self._on_empty()
        return was_open

    def take(self, report: Embedded) -> None:
        """Take vectors; of a job that was given up, there may still be some on the way."""
        job = self._jobs.get(report.job_id)
        if job is None:
            return
        if report.failure is not None:
            self._end(report.job_id, job, SequenceFailed(report.failure))
            return
        num_bytes = len(report.vectors) // len(report.places) if report.places else 0
        for index, place in enumerate(report.places):
            job.vectors[place] = report.vectors[index * num_bytes : (index + 1) * num_bytes]
        job.num_left -= len(report.places)
        if not job.num_left:
            self._end(report.job_id, job, None)

    def fail_all(self, error: MlxctlError) -> None:
        """Have every job raise `error`."""
        for job_id, job in list(self._jobs.items()):
            self._end(job_id, job, error)

    def _end(self, job_id: int, job: _OpenJob, error: MlxctlError | None) -> None:
        if not job.answer.done():
            if error is None:
                job.answer.set_result([vector for vector in job.vectors if vector is not None])
            else:
                job.answer.set_exception(error)
        self.close(job_id)
