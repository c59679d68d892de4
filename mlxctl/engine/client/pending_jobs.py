"""Jobs and queries that the front waits for. Event-loop thread only."""

import asyncio
import itertools
from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.wire.commands import Cancel, QueryCommand
from mlxctl.engine.wire.jobs import Embedded, JobCommand, JobReport
from mlxctl.engine.wire.reports import QueryReport
from mlxctl.ir.errors import MlxctlError, SequenceFailed

Answer = TypeVar("Answer")


class VectorCollector:
    """Orders vectors by their texts, of `lengths` in tokens.

    `on_tokens` gets the number of tokens of each report's texts.
    """

    def __init__(self, lengths: Sequence[int], *, on_tokens: Callable[[int], None]) -> None:
        self._lengths = lengths
        self._on_tokens = on_tokens
        self._vectors: list[bytes | None] = [None] * len(lengths)
        self._num_left = len(lengths)

    def take(self, report: Embedded) -> list[bytes] | None:
        """Take a report, and return all vectors with the last.

        Vectors are in the order of the texts.
        """
        num_bytes = len(report.vectors) // len(report.places) if report.places else 0
        for index, place in enumerate(report.places):
            self._vectors[place] = report.vectors[index * num_bytes : (index + 1) * num_bytes]
        self._num_left -= len(report.places)
        self._on_tokens(sum(self._lengths[place] for place in report.places))
        return None if self._num_left else [vector for vector in self._vectors if vector is not None]


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

    async def stream(
        self, connection: EngineConnection, job_id: int, command: Callable[..., JobCommand]
    ) -> AsyncGenerator[Any, None]:
        """Send the command of a job and yield its reports.

        They end with the one that `is_last`. Closing the iterator cancels the job. Raises what the future of
        `open` does. What is not read waits in memory: the job bounds it.
        """
        reports: asyncio.Queue[Any] = asyncio.Queue()

        def collect(report: Any) -> bool | None:
            reports.put_nowait(report)
            return True if report.is_last else None

        end = self.open(job_id, collect)
        end.add_done_callback(lambda _: reports.put_nowait(None))
        connection.send(command(job_id=job_id))
        try:
            while (report := await reports.get()) is not None:
                yield report
            await end
        finally:
            if self.close(job_id):
                connection.send(Cancel(ids=[job_id]))
            end.cancel()

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
        """Take a report; reports of closed jobs are ignored."""
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


class PendingQueries:
    """Open queries, each with one answer of the same `token`."""

    def __init__(self) -> None:
        self._tokens = itertools.count(1)
        self._answers: dict[int, asyncio.Future[Any]] = {}

    async def ask(self, connection: EngineConnection, query: Callable[..., QueryCommand]) -> Any:
        """Send a query and return its answer. Raises what `fail_all` was given."""
        token = next(self._tokens)
        answer = self._answers[token] = asyncio.get_running_loop().create_future()
        connection.send(query(token=token))
        try:
            return await answer
        finally:
            del self._answers[token]

    def take(self, report: QueryReport) -> None:
        """Deliver an answer; those of cancelled queries are ignored."""
        answer = self._answers.get(report.token)
        if answer is not None and not answer.done():
            answer.set_result(report)

    def fail_all(self, error: MlxctlError) -> None:
        """Have every query raise `error`."""
        for answer in self._answers.values():
            if not answer.done():
                answer.set_exception(error)
