"""Has requests prepared by other processes: who does it, for how long, and what is known of each model.

Event-loop thread only.

A request that takes longer than it may, or whose client has left, ends with the process that prepares it;
another one takes its place. A mistake, even a crash, is an error of its request and of no other.
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
from mlxctl.inference.preparation.messages import Call, Forget, Learn, Load, ReadGrammarVocabulary
from mlxctl.inference.preparation.worker import Worker, WorkerCrashed, WorkerEnded
from mlxctl.inference.preparation.worker_queue import WorkerQueue
from mlxctl.ir import ModelCapabilities, ModelFacts

# An answer that is still being looked at is waited for, since the next request may go on from it; but not for
# long.
_ANSWER_SECONDS = 1.0

_log = logging.getLogger(__name__)
_numbers = itertools.count(1)


@dataclass(slots=True, kw_only=True, eq=False)
class _ModelState:
    """One that was read: how, from which generation of the template on it is known, and its answers."""

    load: Load
    generation: int
    number: int = field(default_factory=lambda: next(_numbers))
    answers: AnswerSegmentLog = field(default_factory=AnswerSegmentLog)
    pending: set["asyncio.Task[None]"] = field(default_factory=set)


class PreparationPool:
    """The processes that prepare requests. Starts when first needed, or by `start`."""

    def __init__(
        self,
        *,
        modules: Sequence[str] = (),
        request_defaults: RequestDefaults = NO_DEFAULTS,
        short: QueueLimits = SHORT,
        long: QueueLimits = LONG,
    ) -> None:
        """`short` and `long` are the limits for requests of fewer and more than SHORT_BYTES.

        `modules` are those that functions come from which `call` is given: they are imported only once.
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
        """Begin to start; returns at once."""
        self._in_background(self._begin())

    async def close(self) -> None:
        """End all processes."""
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
        """Read a model's tokenizer and template; requests to it can be prepared then. Raises BrokenModel."""
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
            message = f"tokenizer or template of {facts.path.name!r} take longer than {LOAD_SECONDS:g} seconds to be read"
            raise BrokenModel(facts.path, message) from None
        except WorkerCrashed as error:
            _log.debug("model %r cannot be read: %s", name, error)
            raise BrokenModel(
                facts.path, f"tokenizer or template of {facts.path.name!r} cannot be used: {error.reason}"
            ) from None
        except WorkerEnded:
            message = f"tokenizer or template of {facts.path.name!r} cannot be used: the process that read them has ended"
            raise BrokenModel(facts.path, message) from None
        self._in_background(self._warm_up(load))
        return reader

    async def forget(self, name: str) -> None:
        """Let go what is known of a model."""
        if self._models.pop(name, None) is not None:
            with suppress(WorkerEnded):
                await self._fork_server.tell(Forget(name=name))

    async def parse(self, body: bytes | bytearray, function: Callable[..., Any]) -> Any:
        """Return what `function` makes of a body.

        A request that it returns comes packed. Raises what it raises, and `run` does.
        """
        return await self.call(function, pickle.PickleBuffer(body), num_bytes=len(body))

    async def parse_with(self, target: Any, method: str, body: bytes | bytearray) -> Any:
        """Return what a method of `target` makes of a body; `target` is then as that left it.

        Raises as `parse` does.
        """
        return await self.run_with(target, method, pickle.PickleBuffer(body), num_bytes=len(body))

    async def call(self, function: Callable[..., Any], *arguments: Any, num_bytes: int) -> Any:
        """Return what `function` makes of `arguments`: here if the `num_bytes` to read are few, else in
        another process.
        """
        if num_bytes < INLINE_BYTES:
            return jobs.call(function, *arguments)
        return await self.run(jobs.call, function, *arguments, num_bytes=num_bytes)

    async def run_with(self, target: Any, method: str, *arguments: Any, num_bytes: int) -> Any:
        """Return what a method of `target` makes of `arguments`, as `call` does; `target` is then as that
        left it.
        """
        if num_bytes < INLINE_BYTES:
            return jobs.call(getattr(target, method), *arguments)
        state, result = await self.run(jobs.call_method, target, method, *arguments, num_bytes=num_bytes)
        vars(target).update(state)
        # To take over what a large body has left takes a while: the others come first, before anything else
        # is done with it.
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
        """Have a function called in another process, with a model's adapter if one is named, which
        `knows_answers` up to the last.

        It may take so long as its `num_bytes` allow. Raises what the function raises, QueueFull when too many
        wait, InvalidRequest when it takes too long, or breaks a library, and SequenceFailed when its process
        has ended.
        """
        queue = self._short if num_bytes < SHORT_BYTES else self._long
        state = None if model is None else self._models[model]
        if state is not None and state.pending and knows_answers:
            await asyncio.wait(state.pending, timeout=_ANSWER_SECONDS)
        return await self._run(
            queue,
            Call(function=function, arguments=arguments, model=model, cpu_seconds=queue.limits.cpu_seconds),
            state,
        )

    def remember(self, model: str, opened: bytes, generated_ids: Sequence[int]) -> None:
        """Keep the ids of an answer that came to its end, so that its text becomes these ids again when it is
        sent back.
        """
        state = self._models.get(model)
        if state is None or not opened or self._is_closed:
            return
        task = self._in_background(self._remember(state, opened, array("I", generated_ids)))
        state.pending.add(task)
        task.add_done_callback(state.pending.discard)

    async def _remember(self, model: _ModelState, opened: bytes, generated_ids: "array[int]") -> None:
        size = len(opened) + 4 * len(generated_ids)
        queue = self._short if size < SHORT_BYTES else self._long
        arguments = (pickle.PickleBuffer(opened), generated_ids)
        name, seconds = model.load.name, queue.limits.cpu_seconds
        call = Call(function=jobs.answer_segments, arguments=arguments, model=name, cpu_seconds=seconds)
        try:
            model.answers.add(await self._run(queue, call, model))
        except MlxctlError as error:
            _log.debug("an answer of model %r is not known again: %s", model.load.name, error)

    async def _run(self, queue: WorkerQueue, call: Call, model: _ModelState | None) -> Any:
        await queue.enter()
        try:
            worker = await self._take(queue, model)
            self._busy.add(worker)
            try:
                return await self._call_worker(queue, worker, call, model)
            finally:
                self._busy.discard(worker)
                self._return_worker(queue, worker)
        finally:
            queue.leave()

    async def _call_worker(
        self, queue: WorkerQueue, worker: Worker, call: Call, model: _ModelState | None
    ) -> Any:
        limits, began = queue.limits, time.monotonic()
        try:
            async with asyncio.timeout(limits.clock_seconds):
                if model is not None:
                    await self._send_new_answers(worker, model)
                return await worker.ask(call)
        except MlxctlError:
            raise
        except TimeoutError:
            worker.kill()
            raise _timed_out(limits.clock_seconds) from None
        except WorkerCrashed as error:
            worker.kill()
            if error.is_native:
                raise InvalidRequest(
                    f"the request cannot be prepared: a library gave up ({error.reason})"
                ) from None
            raise
        except WorkerEnded:
            if time.monotonic() - began >= limits.cpu_seconds:
                raise _timed_out(limits.cpu_seconds) from None
            raise SequenceFailed("the process that prepared the request has ended") from None
        except BaseException:
            # The client has left, so the result is not needed.
            worker.kill()
            raise

    async def _send_new_answers(self, worker: Worker, model: _ModelState) -> None:
        num_answers_sent = worker.num_answers_sent.get(model.number, 0)
        if num_answers_sent < model.answers.end:
            worker.num_answers_sent[model.number] = model.answers.end
            await worker.tell(Learn(name=model.load.name, segments=model.answers.after(num_answers_sent)))

    async def _take(self, queue: WorkerQueue, model: _ModelState | None) -> Worker:
        worker = queue.take_idle(0 if model is None else model.generation)
        if worker is not None:
            return worker
        try:
            await self._ensure_fork_server()
            return await self._fork(queue)
        except WorkerEnded:
            # The template was lost since it was last looked at.
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
                await self._fork_server.tell(
                    Learn(name=model.load.name, segments=model.answers.after(num_answers_sent))
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
            # The first model to be read says so to a person.
            _log.debug("%s", error)

    async def _ensure_fork_server(self) -> None:
        """Start the template if it does not run, and have it read what was read before.

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
                    _log.error("model %r cannot be read again: %s", model.load.name, error)

    async def _read(self, load: Load) -> AnswerReader:
        reader: AnswerReader = await self._fork_server.change(load)
        model = self._models.get(load.name)
        if model is not None and model.load is load:
            # Read again, because the template was lost; no process knows its answers now.
            model.generation, model.number = self._fork_server.generation, next(_numbers)
        else:
            self._models[load.name] = _ModelState(load=load, generation=self._fork_server.generation)
        self._end_idle()
        return reader

    async def _warm_up(self, load: Load) -> None:
        """Read the model's vocabulary for grammars, and have processes ready that know all of it."""
        try:
            await self._prefork()
            if load.facts.purpose == "text":
                await self._fork_server.change(ReadGrammarVocabulary(name=load.name))
                self._end_idle()
                await self._prefork()
        except (MlxctlError, TimeoutError, WorkerCrashed, WorkerEnded) as error:
            # Then the first grammar does it, or fails.
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
