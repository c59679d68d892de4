"""Jobs that the front waits for. Event-loop thread only."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.wire.commands import Cancel
from mlxctl.engine.wire.jobs import JobCommand, JobReport, Transcribed, TranscribedWindow
from mlxctl.errors import MlxctlError, SequenceFailed

Answer = TypeVar("Answer")


def transcribed_window(report: Transcribed) -> TranscribedWindow | None:
    """Return the transcript once the report has one."""
    return report.window


@dataclass(slots=True, eq=False)
class _PendingJob:
    collect: Callable[[Any], Any]
    answer: asyncio.Future[Any]


class PendingJobs:
    """Collects the reports of open jobs.

    `on_empty` is called when the last has ended.
    """

    def __init__(self, *, on_empty: Callable[[], None]) -> None:
        self._jobs: dict[int, _PendingJob] = {}
        self._on_empty = on_empty

    def __len__(self) -> int:
        return len(self._jobs)

    async def run(
        self,
        connection: EngineConnection,
        job_id: int,
        command: Callable[..., JobCommand],
        collect: Callable[[Any], Answer | None],
    ) -> Answer:
        """Send the command of a job and wait for its result.

        See `open`. Cancelling the task cancels the job.
        """
        answer = self.open(job_id, collect)
        connection.send(command(job_id=job_id))
        try:
            return await answer
        finally:
            if self.close(job_id):
                connection.send(Cancel(ids=[job_id]))

    def open(self, job_id: int, collect: Callable[[Any], Answer | None]) -> asyncio.Future[Answer]:
        """Return the future of a job's result; `collect` takes each report.

        `collect` returns the result with the last report and None before. The future raises SequenceFailed,
        or what `fail_all` was given.
        """
        job = _PendingJob(collect, asyncio.get_running_loop().create_future())
        self._jobs[job_id] = job
        return job.answer

    def close(self, job_id: int) -> bool:
        """Stop expecting reports of a job; return whether it was open."""
        was_open = self._jobs.pop(job_id, None) is not None
        if was_open and not self._jobs:
            self._on_empty()
        return was_open

    def take(self, report: JobReport) -> None:
        """Take a report; reports of a closed job are ignored."""
        job = self._jobs.get(report.job_id)
        if job is None:
            return
        if report.failure is not None:
            self._end(report.job_id, job, SequenceFailed(report.failure))
            return
        answer = job.collect(report)
        if answer is not None:
            if not job.answer.done():
                job.answer.set_result(answer)
            self.close(report.job_id)

    def fail_all(self, error: MlxctlError) -> None:
        """Have every job raise `error`."""
        for job_id, job in list(self._jobs.items()):
            self._end(job_id, job, error)

    def _end(self, job_id: int, job: _PendingJob, error: MlxctlError) -> None:
        if not job.answer.done():
            job.answer.set_exception(error)
        self.close(job_id)
