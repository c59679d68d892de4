"""Pool of preparation processes, and the models that they have.

Event-loop thread only. A request that exceeds its time, or whose client has left, is stopped by killing its
process; another one replaces it. An error, even a crash, fails only its own request.
"""

import asyncio
import logging
import pickle
from array import array
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

from mlxctl.formats.adapters import RequestDefaults
from mlxctl.formats.adapters.adapter import NO_DEFAULTS
from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.inference.preparation import jobs
from mlxctl.inference.preparation.limits import (
    INLINE_BYTES,
    LOAD_SECONDS,
    LONG,
    SHORT,
    QueueLimits,
)
from mlxctl.inference.preparation.messages import Call, Load
from mlxctl.inference.preparation.model_workers import ModelWorkers, PreparedModel
from mlxctl.inference.preparation.packed_request import PackedRequest
from mlxctl.inference.preparation.worker import WorkerCrashed, WorkerEnded
from mlxctl.ir import ModelCapabilities, ModelFacts
from mlxctl.ir.errors import BrokenModel, MlxctlError
from mlxctl.ir.timed_phases import timed

# The next request may continue an answer that is still being recorded, so it waits, but not longer than this.
_RECORDING_SECONDS = 1.0

_log = logging.getLogger(__name__)


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
        self._workers = ModelWorkers([jobs.__name__, *modules], short=short, long=long)
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    def start(self) -> None:
        """Start the fork server in the background."""
        self._in_background(self._begin())

    async def close(self) -> None:
        """End all preparation processes."""
        self._is_closed = True
        self._workers.stop()
        tasks = list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._workers.close()

    async def load(self, name: str, facts: ModelFacts, capabilities: ModelCapabilities) -> AnswerReader:
        """Read a model's tokenizer and template, and return its reader. Raises BrokenModel."""
        load = Load(
            name=name,
            facts=facts,
            capabilities=capabilities,
            request_defaults=self._request_defaults,
        )
        try:
            await self._workers.ensure_started()
            reader = await self._workers.read(load)
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
        self._in_background(self._workers.warm_up(load))
        return reader

    async def unload(self, name: str) -> None:
        """Drop a model's adapter and answers."""
        await self._workers.unload(name)

    async def parse(
        self,
        body: bytes | bytearray,
        function: Callable[..., Any],
        *arguments: Any,
        num_bytes: int | None = None,
    ) -> Any:
        """Return the result of `function` on a body and `arguments`.

        Requests come packed. `num_bytes` is the size of all of them, that of the body if not given. Raises
        what the function and `run` raise.
        """
        num_bytes = len(body) if num_bytes is None else num_bytes
        with timed("parse"):
            return await self.call(function, pickle.PickleBuffer(body), *arguments, num_bytes=num_bytes)

    async def call(
        self, function: Callable[..., Any], *arguments: Any, num_bytes: int, is_slow: bool = False
    ) -> Any:
        """Return the result of `function`.

        Short `arguments`, of `num_bytes`, are handled in the front unless the function `is_slow`, others in a
        worker.
        """
        if num_bytes < INLINE_BYTES and not is_slow:
            return jobs.call_here(function, *arguments, num_bytes=num_bytes)
        result = await self.run(jobs.call, function, *arguments, num_bytes=num_bytes)
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
        queue = self._workers.queue(num_bytes)
        state = None if model is None else self._workers.model(model)
        if state is not None and state.pending and knows_answers:
            await asyncio.wait(state.pending, timeout=_RECORDING_SECONDS)
        return await self._workers.run(
            queue,
            Call(function=function, arguments=arguments, model=model, cpu_seconds=queue.limits.cpu_seconds),
            state,
        )

    async def run_on(
        self, function: Callable[..., Any], request: PackedRequest, *more: Any, model: str
    ) -> Any:
        """Call a function of a request in a worker, as `run` does.

        It waits for answers only if the request repeats some.
        """
        return await self.run(
            function,
            request,
            *more,
            num_bytes=request.num_bytes,
            model=model,
            knows_answers=request.has_answers,
        )

    def record_answer(self, model: str, opened: bytes, generated_ids: Sequence[int]) -> None:
        """Record the ids of a finished answer.

        Its text is encoded to the same ids afterwards.
        """
        state = self._workers.model(model)
        if state is None or not opened or self._is_closed:
            return
        task = self._in_background(self._record_answer(state, opened, array("I", generated_ids)))
        state.pending.add(task)
        task.add_done_callback(state.pending.discard)

    async def _record_answer(self, model: PreparedModel, opened: bytes, generated_ids: "array[int]") -> None:
        size = len(opened) + 4 * len(generated_ids)
        queue = self._workers.queue(size)
        arguments = (pickle.PickleBuffer(opened), generated_ids)
        name, seconds = model.load.name, queue.limits.cpu_seconds
        call = Call(function=jobs.answer_segments, arguments=arguments, model=name, cpu_seconds=seconds)
        try:
            model.answers.add(await self._workers.run(queue, call, model))
        except MlxctlError as error:
            _log.debug("an answer of model %r is not recorded: %s", model.load.name, error)

    async def _begin(self) -> None:
        try:
            await self._workers.ensure_started()
        except WorkerEnded as error:
            # The first model to be loaded reports it.
            _log.debug("%s", error)

    def _in_background(self, work: Coroutine[Any, Any, None]) -> "asyncio.Task[None]":
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task
