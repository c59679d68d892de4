"""Pool of preparation processes, and the models that they have.

Event-loop thread only. A request that exceeds its time, or whose client has left, is stopped by killing its
process; another one replaces it. An error, even a crash, fails only its own request.
"""

import asyncio
import itertools
import logging
import pickle
import time
from array import array
from collections.abc import Callable, Coroutine, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from mlxctl.adapters import RequestDefaults
from mlxctl.adapters.adapter import NO_DEFAULTS
from mlxctl.adapters.answer_reader import AnswerReader
from mlxctl.errors import BrokenModel, InvalidRequest, MlxctlError, SequenceFailed
from mlxctl.inference.preparation import jobs
from mlxctl.inference.preparation.answer_log import AnswerSegmentLog
from mlxctl.inference.preparation.fork_server import ForkServer
from mlxctl.inference.preparation.limits import (
    INLINE_BYTES,
    LOAD_SECONDS,
    LONG,
    SHORT,
    SHORT_BYTES,
    QueueLimits,
)
from mlxctl.inference.preparation.messages import Call, DropAdapter, Load, LoadGrammarVocabulary, StoreAnswers
from mlxctl.inference.preparation.worker import Worker, WorkerCrashed, WorkerEnded
from mlxctl.inference.preparation.worker_queue import WorkerQueue
from mlxctl.ir import ModelCapabilities, ModelFacts

# The next request may continue an answer that is still being recorded, so it waits, but not longer than this.
_RECORDING_SECONDS = 1.0

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True, eq=False)
class _ModelState:
    """A loaded model with its answers.

    `generation` is the first one of the fork server that has it.
    """

    load: Load
    generation: int
    number: int = field(default_factory=lambda: next(_numbers))
    answers: AnswerSegmentLog = field(default_factory=AnswerSegmentLog)
    pending: set["asyncio.Task[None]"] = field(default_factory=set)


class PreparationPool:
    """Prepares requests in worker processes.

    They start at first use, or by `start`.
    """

    def __init__(
        self,
        *,
        modules: Sequence[str] = (),
        request_defaults: RequestDefaults = NO_DEFAULTS,
        short: QueueLimits = SHORT,
        long: QueueLimits = LONG,
    ) -> None:
        """`short` and `long` are the limits for requests below and above SHORT_BYTES.

        `modules` are imported once, before forking: those of functions passed to `call`.
        """
        self._request_defaults = request_defaults
        self._fork_server = ForkServer([jobs.__name__, *modules])
        self._short, self._long = WorkerQueue(short), WorkerQueue(long)
        self._models: dict[str, _ModelState] = {}
        self._busy: set[Worker] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._starting = asyncio.Lock()
        self._is_closed = False

    def start(self) -> None:
        """Start the fork server in the background."""
        self._in_background(self._begin())

    async def close(self) -> None:
        """End all preparation processes."""
        self._is_closed = True
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        for worker in self._busy:
            worker.kill()
        self._short.end_idle()
        self._long.end_idle()
        await self._fork_server.close()

    async def load(self, name: str, facts: ModelFacts, capabilities: ModelCapabilities) -> AnswerReader:
        """Read a model's tokenizer and template, and return its reader. Raises BrokenModel."""
        load = Load(
            name=name,
            facts=facts,
            capabilities=capabilities,
            request_defaults=self._request_defaults,
        )
        try:
            await self._ensure_fork_server()
            reader = await self._read(load)
        except TimeoutError:
            message = (
                f"tokenizer or template of {facts.path.name!r} take longer than {LOAD_SECONDS:g} "
                "seconds to be read"
            )
            raise BrokenModel(facts.path, message) from None
        except WorkerCrashed as error:
            _log.debug("model %r cannot be read: %s", name, error)
            raise BrokenModel(
                facts.path, f"tokenizer or template of {facts.path.name!r} cannot be used: {error.reason}"
            ) from None
        except WorkerEnded:
            message = (
                f"tokenizer or template of {facts.path.name!r} cannot be used: the process that "
                "read them has ended"
            )
            raise BrokenModel(facts.path, message) from None
        self._in_background(self._warm_up(load))
        return reader

    async def unload(self, name: str) -> None:
        """Drop a model's adapter and answers."""
        if self._models.pop(name, None) is not None:
            with suppress(WorkerEnded):
                await self._fork_server.send_command(DropAdapter(name=name))

    async def parse(self, body: bytes | bytearray, function: Callable[..., Any]) -> Any:
        """Return the result of `function` on a body; requests come packed.

        Raises what the function and `run` raise.
        """
        return await self.call(function, pickle.PickleBuffer(body), num_bytes=len(body))

    async def parse_with(self, target: Any, method: str, body: bytes | bytearray) -> Any:
        """Return the result of a method of `target` on a body.

        The state of `target` is updated. Raises as `parse` does.
        """
        return await self.run_with(target, method, pickle.PickleBuffer(body), num_bytes=len(body))

    async def call(self, function: Callable[..., Any], *arguments: Any, num_bytes: int) -> Any:
        """Return the result of `function`.

        Short `arguments`, of `num_bytes`, are handled in the front, others in a worker.
        """
        if num_bytes < INLINE_BYTES:
            return jobs.call(function, *arguments)
        return await self.run(jobs.call, function, *arguments, num_bytes=num_bytes)

    async def run_with(self, target: Any, method: str, *arguments: Any, num_bytes: int) -> Any:
        """Return what a method of `target` makes of `arguments`, as `call` does.

        `target` is then as that left it.
        """
        if num_bytes < INLINE_BYTES:
            return jobs.call(getattr(target, method), *arguments)
        state, result = await self.run(jobs.call_method, target, method, *arguments, num_bytes=num_bytes)
        vars(target).update(state)
        # Freeing the buffers of a large body takes a while; other tasks run first.
        await asyncio.sleep(0)
        return result

    async def run(
        self,
        function: Callable[..., Any],
        *arguments: Any,
        num_bytes: int,
        model: str | None = None,
        knows_answers: bool = True,
    ) -> Any:
        """Call a function in a worker.

        The adapter of `model` is its first argument, if given. The time limit follows from `num_bytes`. With
        `knows_answers`, the adapter has all answers so far. Raises what the function raises, QueueFull,
        InvalidRequest when the request takes too long or crashes a library, and SequenceFailed when the
        process has ended.
        """
        queue = self._short if num_bytes < SHORT_BYTES else self._long
        state = None if model is None else self._models[model]
        if state is not None and state.pending and knows_answers:
            await asyncio.wait(state.pending, timeout=_RECORDING_SECONDS)
        return await self._run(
            queue,
            Call(function=function, arguments=arguments, model=model, cpu_seconds=queue.limits.cpu_seconds),
            state,
        )

    def record_answer(self, model: str, opened: bytes, generated_ids: Sequence[int]) -> None:
        """Record the ids of a finished answer.

        Its text is encoded to the same ids afterwards.
        """
        state = self._models.get(model)
        if state is None or not opened or self._is_closed:
            return
        task = self._in_background(self._record_answer(state, opened, array("I", generated_ids)))
        state.pending.add(task)
        task.add_done_callback(state.pending.discard)

    async def _record_answer(self, model: _ModelState, opened: bytes, generated_ids: "array[int]") -> None:
        size = len(opened) + 4 * len(generated_ids)
        queue = self._short if size < SHORT_BYTES else self._long
        arguments = (pickle.PickleBuffer(opened), generated_ids)
        name, seconds = model.load.name, queue.limits.cpu_seconds
        call = Call(function=jobs.answer_segments, arguments=arguments, model=name, cpu_seconds=seconds)
        try:
            model.answers.add(await self._run(queue, call, model))
        except MlxctlError as error:
            _log.debug("an answer of model %r is not recorded: %s", model.load.name, error)

    async def _run(self, queue: WorkerQueue, call: Call, model: _ModelState | None) -> Any:
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
        self, queue: WorkerQueue, worker: Worker, call: Call, model: _ModelState | None
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

    async def _send_new_answers(self, worker: Worker, model: _ModelState) -> None:
        num_answers_sent = worker.num_answers_sent.get(model.number, 0)
        if num_answers_sent < model.answers.end:
            worker.num_answers_sent[model.number] = model.answers.end
            await worker.send_command(
                StoreAnswers(name=model.load.name, segments=model.answers.after(num_answers_sent))
            )

    async def _take(self, queue: WorkerQueue, model: _ModelState | None) -> Worker:
        worker = queue.take_idle(0 if model is None else model.generation)
        if worker is not None:
            return worker
        try:
            await self._ensure_fork_server()
            return await self._fork(queue)
        except WorkerEnded:
            # The fork server was lost in the meantime.
            await self._ensure_fork_server()
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

    async def _begin(self) -> None:
        try:
            await self._ensure_fork_server()
        except WorkerEnded as error:
            # The first model to be loaded reports it.
            _log.debug("%s", error)

    async def _ensure_fork_server(self) -> None:
        """Start the fork server if it does not run, with all models.

        Raises WorkerEnded.
        """
        async with self._starting:
            if self._fork_server.is_running or self._is_closed:
                return
            await self._fork_server.start()
            for model in list(self._models.values()):
                try:
                    await self._read(model.load)
                except (MlxctlError, TimeoutError, WorkerCrashed, WorkerEnded) as error:
                    _log.error("model %r cannot be loaded again: %s", model.load.name, error)

    async def _read(self, load: Load) -> AnswerReader:
        reader: AnswerReader = await self._fork_server.execute_and_replace(load)
        model = self._models.get(load.name)
        if model is not None and model.load is load:
            # Loaded again after the fork server was lost; no process has its answers now.
            model.generation, model.number = self._fork_server.generation, next(_numbers)
        else:
            self._models[load.name] = _ModelState(load=load, generation=self._fork_server.generation)
        self._end_idle()
        return reader

    async def _warm_up(self, load: Load) -> None:
        """Read the vocabulary for grammars, and fork workers that have it."""
        try:
            await self._prefork()
            if load.facts.purpose == "text":
                await self._fork_server.execute_and_replace(LoadGrammarVocabulary(name=load.name))
                self._end_idle()
                await self._prefork()
        except (MlxctlError, TimeoutError, WorkerCrashed, WorkerEnded) as error:
            # The first grammar reads it then, or fails.
            _log.debug("the vocabulary of model %r is not ready for grammars: %s", load.name, error)

    async def _prefork(self) -> None:
        for queue in (self._short, self._long):
            if not queue.idle:
                queue.idle.append(await self._fork(queue))

    def _end_idle(self) -> None:
        self._short.end_idle()
        self._long.end_idle()

    def _in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task


def _timed_out(seconds: float) -> InvalidRequest:
    return InvalidRequest(
        f"the request took longer to prepare than the {seconds:g} seconds that it may; send a shorter one"
    )
