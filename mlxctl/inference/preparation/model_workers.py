"""Preparation processes, and the models that are loaded in them.

Event-loop thread only. The fork server has all models; workers are forked from it and inherit them.
"""

import asyncio
import itertools
import logging
import time
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.formats.adapters.tokens.encoded_segments import EncodedSegment
from mlxctl.inference.preparation.fork_server import ForkServer
from mlxctl.inference.preparation.limits import SHORT_BYTES, QueueLimits
from mlxctl.inference.preparation.messages import Call, DropAdapter, Load, LoadGrammarVocabulary, StoreAnswers
from mlxctl.inference.preparation.worker import Worker, WorkerCrashed, WorkerEnded
from mlxctl.inference.preparation.worker_queue import WorkerQueue
from mlxctl.ir.errors import InvalidRequest, MlxctlError, SequenceFailed

_MAX_ANSWER_BYTES = 16 << 20
_ENTRY_BYTES = 250

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)


class AnswerSegmentLog:
    """Token ids of one model's answers, for workers that lack them.

    In order of arrival; the oldest are dropped beyond `max_bytes`.
    """

    def __init__(self, *, max_bytes: int = _MAX_ANSWER_BYTES) -> None:
        self.end = 0
        self._max_bytes = max_bytes
        self._num_bytes = 0
        self._segments: deque[EncodedSegment] = deque()

    def add(self, segments: Iterable[EncodedSegment]) -> None:
        for segment in segments:
            self._segments.append(segment)
            self._num_bytes += _size(segment)
            self.end += 1
        while self._num_bytes > self._max_bytes:
            self._num_bytes -= _size(self._segments.popleft())

    def after(self, number: int) -> list[EncodedSegment]:
        """Return the segments after the first `number` ones that are still stored."""
        first = self.end - len(self._segments)
        return list(islice(self._segments, max(0, number - first), None))


@dataclass(slots=True, kw_only=True, eq=False)
class PreparedModel:
    """A loaded model with its answers.

    `generation` is the first one of the fork server that has it.
    """

    load: Load
    generation: int
    number: int = field(default_factory=lambda: next(_numbers))
    answers: AnswerSegmentLog = field(default_factory=AnswerSegmentLog)
    pending: set["asyncio.Task[None]"] = field(default_factory=set)


class ModelWorkers:
    """Workers for short and long requests, with their fork server."""

    def __init__(self, modules: Sequence[str], *, short: QueueLimits, long: QueueLimits) -> None:
        self._fork_server = ForkServer(modules)
        self._short, self._long = WorkerQueue(short), WorkerQueue(long)
        self._models: dict[str, PreparedModel] = {}
        self._busy: set[Worker] = set()
        self._starting = asyncio.Lock()
        self._is_closed = False

    def queue(self, num_bytes: int) -> WorkerQueue:
        """Return the queue for a request of `num_bytes`."""
        return self._short if num_bytes < SHORT_BYTES else self._long

    def model(self, name: str) -> PreparedModel | None:
        """Return a loaded model."""
        return self._models.get(name)

    async def unload(self, name: str) -> None:
        """Drop a model's adapter and answers."""
        if self._models.pop(name, None) is not None:
            with suppress(WorkerEnded):
                await self._fork_server.send_command(DropAdapter(name=name))

    def stop(self) -> None:
        """Kill the workers that are busy, and start none from now on."""
        self._is_closed = True
        for worker in self._busy:
            worker.kill()

    async def close(self) -> None:
        """End all processes, the busy ones too."""
        self.stop()
        self._end_idle()
        await self._fork_server.close()

    async def _send_new_answers(self, worker: Worker, model: PreparedModel) -> None:
        num_answers_sent = worker.num_answers_sent.get(model.number, 0)
        if num_answers_sent < model.answers.end:
            worker.num_answers_sent[model.number] = model.answers.end
            await worker.send_command(
                StoreAnswers(name=model.load.name, segments=model.answers.after(num_answers_sent))
            )

    async def _take(self, queue: WorkerQueue, model: PreparedModel | None) -> Worker:
        worker = queue.take_idle(0 if model is None else model.generation)
        if worker is not None:
            return worker
        try:
            await self.ensure_started()
            return await self._fork(queue)
        except WorkerEnded:
            # The fork server was lost in the meantime.
            await self.ensure_started()
        try:
            return await self._fork(queue)
        except WorkerEnded as error:
            raise SequenceFailed(f"the request cannot be prepared: {error}") from None

    async def _fork(self, queue: WorkerQueue) -> Worker:
        for model in self._models.values():
            num_answers_sent = self._fork_server.num_answers_sent.get(model.number, 0)
            if num_answers_sent < model.answers.end:
                self._fork_server.num_answers_sent[model.number] = model.answers.end
                await self._fork_server.send_command(
                    StoreAnswers(name=model.load.name, segments=model.answers.after(num_answers_sent))
                )
        return await self._fork_server.fork(niceness=queue.limits.niceness)

    def _return_worker(self, queue: WorkerQueue, worker: Worker) -> None:
        if worker.has_ended:
            return
        if self._is_closed or worker.has_grown or worker.generation < self._fork_server.generation:
            worker.end()
        else:
            queue.idle.append(worker)

    async def ensure_started(self) -> None:
        """Start the fork server with all models, unless it runs.

        Raises WorkerEnded.
        """
        async with self._starting:
            if self._fork_server.is_running or self._is_closed:
                return
            await self._fork_server.start()
            for model in list(self._models.values()):
                try:
                    await self.read(model.load)
                except (MlxctlError, TimeoutError, WorkerCrashed, WorkerEnded) as error:
                    _log.error("model %r cannot be loaded again: %s", model.load.name, error)

    async def read(self, load: Load) -> AnswerReader:
        """Load a model into the fork server and return its reader.

        Raises BrokenModel, TimeoutError, WorkerCrashed, WorkerEnded.
        """
        reader: AnswerReader = await self._fork_server.execute_and_replace(load)
        model = self._models.get(load.name)
        if model is not None and model.load is load:
            # Loaded again after the fork server was lost; no process has its answers now.
            model.generation, model.number = self._fork_server.generation, next(_numbers)
        else:
            self._models[load.name] = PreparedModel(load=load, generation=self._fork_server.generation)
        self._end_idle()
        return reader

    async def warm_up(self, load: Load) -> None:
        """Read the vocabulary for grammars, and fork workers that have it."""
        try:
            await self._prefork()
            if load.facts.purpose == "text":
                await self._fork_server.execute_and_replace(LoadGrammarVocabulary(name=load.name))
                self._end_idle()
                await self._prefork()
        except (MlxctlError, TimeoutError, WorkerCrashed, WorkerEnded) as error:
            # The first grammar then reads the vocabulary, or fails.
            _log.debug("the vocabulary of model %r is not ready for grammars: %s", load.name, error)

    async def _prefork(self) -> None:
        for queue in (self._short, self._long):
            if not queue.idle:
                queue.idle.append(await self._fork(queue))

    def _end_idle(self) -> None:
        self._short.end_idle()
        self._long.end_idle()

    async def run(self, queue: WorkerQueue, call: Call, model: PreparedModel | None) -> Any:
        """Run a call in a worker that has the model.

        Raises as `PreparationPool.run` does.
        """
        await queue.acquire()
        try:
            worker = await self._take(queue, model)
            self._busy.add(worker)
            try:
                return await self._call_worker(queue, worker, call, model)
            finally:
                self._busy.discard(worker)
                self._return_worker(queue, worker)
        finally:
            queue.release()

    async def _call_worker(
        self, queue: WorkerQueue, worker: Worker, call: Call, model: PreparedModel | None
    ) -> Any:
        limits, began = queue.limits, time.monotonic()
        try:
            async with asyncio.timeout(limits.clock_seconds):
                if model is not None:
                    await self._send_new_answers(worker, model)
                return await worker.execute(call)
        except MlxctlError:
            raise
        except TimeoutError:
            worker.kill()
            raise _timed_out(limits.clock_seconds) from None
        except WorkerCrashed as error:
            worker.kill()
            if error.is_native:
                raise InvalidRequest(
                    f"the request cannot be prepared: a library failed ({error.reason})"
                ) from None
            raise
        except WorkerEnded:
            if time.monotonic() - began >= limits.cpu_seconds:
                raise _timed_out(limits.cpu_seconds) from None
            raise SequenceFailed("the process that prepared the request has ended") from None
        except BaseException:
            # The client has disconnected, so the result is not needed.
            worker.kill()
            raise


def _timed_out(seconds: float) -> InvalidRequest:
    return InvalidRequest(
        f"preparing the request exceeded the limit of {seconds:g} seconds; send a shorter one"
    )


def _size(segment: EncodedSegment) -> int:
    return _ENTRY_BYTES + 4 * len(segment.token_ids)
