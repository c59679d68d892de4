"""The one door to the engine: starts it, watches it, starts it again, and hands out token streams. Event-loop thread only.

If the engine dies, every open stream ends with EngineDied, new ones are refused with EngineRecovering until the next engine has
loaded its models, and pauses between attempts double. Whether it is alive is judged by delivery: rows that run and give nothing for
`stall_seconds` mean a dead engine, however busy its thread looks.
"""

import asyncio
import contextlib
import itertools
import logging
import time
from array import array
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, Literal, assert_never

from mlxctl.engine.connection import Connection
from mlxctl.engine.embedding.collected import CollectedVectors
from mlxctl.engine.launcher import Launcher
from mlxctl.engine.messages import (
    AnyReport,
    AskCache,
    CacheAction,
    CacheAnswer,
    Cancel,
    Embed,
    Embedded,
    Hello,
    LookedUp,
    LookUp,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    ReportStats,
    SoundWindow,
    Stats,
    Step,
    Stop,
    Submit,
    Transcribe,
    Transcribed,
    WrittenWindow,
)
from mlxctl.engine.model_desk import ModelDesk, ModelSource
from mlxctl.engine.open_jobs import OpenJobs, written_window
from mlxctl.engine.token_stream import TokenStream
from mlxctl.errors import EngineDied, EngineRecovering, MlxctlError, ModelError, QueueFull, ShuttingDown
from mlxctl.ir import CacheOptions, Guidance, Picture, SamplingParams
from mlxctl.prefix_cache.chunks import Salt
from mlxctl.prefix_cache.lifetime import Lifetime
from mlxctl.settings import EngineSettings

EngineStatus = Literal["starting", "ready", "recovering", "draining", "failed"]

_ALL_CACHED = CacheOptions()
_FIRST_BACKOFF_SECONDS = 0.25
_MAX_FIRST_STARTS = 3
_HEALTHY_AFTER_SECONDS = 60.0
# The engine may take 8 s of it to write its prefix cache to disk.
_END_GRACE_SECONDS = 12.0

_log = logging.getLogger(__name__)


class EngineClient:
    """Supervises one engine and multiplexes sequences over its socket."""

    def __init__(self, launcher: Launcher, settings: EngineSettings, *, max_queue: int) -> None:
        self._launcher = launcher
        self._settings = settings
        self._max_queue = max_queue
        self._sources: list[ModelSource] = []
        self._connection: Connection | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._streams: dict[int, TokenStream] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._desk = ModelDesk(load_timeout_seconds=settings.load_timeout_seconds)
        self._jobs = OpenJobs(on_empty=self._note_end)
        self._is_ready = asyncio.Event()
        self._is_idle = asyncio.Event()
        self._is_idle.set()
        self._was_ready = False
        self._has_lost = asyncio.Event()
        self._failure: MlxctlError | None = None
        self._last_delivery = 0.0
        self._num_failures = 0
        self.status: EngineStatus = "starting"
        self.hello: Hello | None = None
        self.num_restarts = 0
        self.lost: dict[str, ModelError] = {}
        """Models of the start that did not come back after the engine had died, and why; until they are loaded again."""

    async def start(self, sources: list[ModelSource]) -> None:
        """Begin to bring the engine up with these models, now and whenever it has died; `wait_ready` tells when they are there.

        Called again, for example after `wait_ready` has raised a ModelError, it ends the engine and begins anew.
        """
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.wait({self._supervisor})
            self._failure, self.status, self._was_ready = None, "starting", False
            self._is_ready.clear()
            self._desk.clear()
        self._sources = sources
        self._supervisor = asyncio.create_task(self._supervise(), name="engine-supervisor")

    async def wait_ready(self) -> None:
        """Wait until the models are loaded for the first time. Raises the ModelError of one that cannot be, and EngineDied."""
        await self._is_ready.wait()
        if self._failure is not None:
            raise self._failure

    def submit(
        self,
        *,
        model: str,
        prompt_token_ids: Sequence[int],
        sampling: SamplingParams,
        stop_token_ids: frozenset[int],
        max_tokens: int,
        priority: int = 0,
        fairness_key: str = "",
        cache: CacheOptions = _ALL_CACHED,
        num_longer_tokens: int = 0,
        guidance: Guidance | None = None,
        pictures: Sequence[Picture] = (),
        scores_prompt: bool = False,
    ) -> TokenStream:
        """Start a sequence. Raises EngineRecovering, ShuttingDown, QueueFull.

        `num_longer_tokens` are those of the beginning that `cache` keeps for longer.
        """
        connection = self._begin()
        stream = TokenStream(next(self._numbers), self._cancel)
        self._streams[stream.sequence_id] = stream
        connection.send(
            Submit(
                sequence_id=stream.sequence_id,
                model=model,
                prompt_token_ids=array("I", prompt_token_ids).tobytes(),
                sampling=sampling,
                stop_token_ids=sorted(stop_token_ids),
                max_tokens=max_tokens,
                priority=priority,
                fairness_key=fairness_key,
                cache_mode=cache.mode,
                lifetime=_lifetime(cache, num_longer_tokens),
                guidance=guidance,
                pictures=list(pictures),
                scores_prompt=scores_prompt,
            )
        )
        return stream

    async def embed(self, *, model: str, texts: Sequence[Sequence[int]], dimensions: int | None = None) -> list[bytes]:
        """Return a vector (packed float32) for each text of token ids. Whoever stops waiting stops the work.

        Raises EngineRecovering, ShuttingDown, QueueFull, EngineDied, SequenceFailed.
        """
        packed = [array("I", text).tobytes() for text in texts]
        command = partial(Embed, model=model, texts=packed, dimensions=dimensions)
        return await self._jobs.have_done(self._begin(), next(self._numbers), command, CollectedVectors(len(texts)).take)

    async def transcribe(self, window: SoundWindow) -> WrittenWindow:
        """Return what the model writes of a window of sound. Raises what `embed` does, and stops when nobody waits."""
        command = partial(Transcribe, window=window)
        return await self._jobs.have_done(self._begin(), next(self._numbers), command, written_window)

    @property
    def loaded(self) -> Mapping[str, ModelLoaded]:
        """The models that the running engine holds, by name."""
        return self._desk.loaded

    async def load(self, source: ModelSource) -> ModelLoaded:
        """Load a model beside the others. Raises its ModelError, EngineDied, EngineRecovering, ShuttingDown."""
        loaded = await self._desk.load(self._ready_connection(), source)
        self.lost.pop(source.name, None)
        if not self.lost:
            self._has_lost.clear()
        return loaded

    async def unload(self, name: str) -> ModelUnloaded:
        """Free a model. Raises ModelInUse while it has sequences, EngineDied, EngineRecovering, ShuttingDown."""
        return await self._desk.unload(self._ready_connection(), name)

    async def wait_lost(self) -> None:
        """Wait until there are models that were lost."""
        await self._has_lost.wait()

    def check_ready(self) -> None:
        """Raise EngineRecovering or ShuttingDown when nothing can be asked of the engine now."""
        self._ready_connection()

    async def stats(self) -> Stats:
        """Ask the engine what it holds. Raises EngineRecovering, EngineDied."""
        answer: Stats = await self._ask(ReportStats(token=next(self._numbers)))
        return answer

    async def look_up(self, model: str, prompt_token_ids: Sequence[int], salts: Sequence[Salt] = ()) -> LookedUp:
        """Ask how much of a prompt, with what its pictures make of it, is computed already. Raises EngineRecovering, EngineDied."""
        packed = array("I", prompt_token_ids).tobytes()
        asked = LookUp(token=next(self._numbers), model=model, prompt_token_ids=packed, salts=list(salts))
        answer: LookedUp = await self._ask(asked)
        return answer

    async def ask_cache(self, action: CacheAction, *, keys: Sequence[bytes] = (), offset: int = 0, limit: int = 0) -> CacheAnswer:
        """Ask for a page of what the prefix cache holds, or to change it. Raises EngineRecovering, EngineDied."""
        asked = AskCache(token=next(self._numbers), action=action, keys=list(keys), offset=offset, limit=limit)
        answer: CacheAnswer = await self._ask(asked)
        return answer

    @property
    def num_open(self) -> int:
        """Sequences and jobs that have been submitted and have not ended."""
        return len(self._streams) + len(self._jobs)

    async def stop(self, *, drain_seconds: float) -> None:
        """Refuse new sequences, let the open ones finish for up to `drain_seconds`, end the rest, end the engine."""
        self.status = "draining"
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._is_idle.wait(), drain_seconds)
        self._fail_all(ShuttingDown("the server is shutting down"))
        if self._supervisor is not None:
            self._supervisor.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._supervisor
        self._is_ready.set()

    async def _ask(self, question: ReportStats | LookUp | AskCache) -> Any:
        connection = self._ready_connection(even_draining=True)
        answer = self._questions[question.token] = asyncio.get_running_loop().create_future()
        connection.send(question)
        try:
            return await answer
        finally:
            self._questions.pop(question.token, None)

    def _begin(self) -> Connection:
        """Make ready for one more request. Raises EngineRecovering, ShuttingDown, QueueFull."""
        connection = self._ready_connection()
        num_waiting = sum(not stream.has_started for stream in self._streams.values()) + len(self._jobs)
        if num_waiting >= self._max_queue + self._settings.max_rows:
            raise QueueFull(f"{num_waiting} requests are waiting already", retry_after_seconds=2.0)
        if not self.num_open:
            self._last_delivery = time.monotonic()
        self._is_idle.clear()
        return connection

    def _ready_connection(self, *, even_draining: bool = False) -> Connection:
        if self.status == "draining" and not even_draining:
            raise ShuttingDown("the server is shutting down", retry_after_seconds=5.0)
        if self._connection is None or not self._is_ready.is_set() or self._failure is not None:
            what = "starting again" if self._was_ready else "starting"
            raise EngineRecovering(f"the engine is {what}; try again in a moment", retry_after_seconds=2.0)
        return self._connection

    async def _supervise(self) -> None:
        watchdog = asyncio.create_task(self._watch_delivery(), name="engine-watchdog")
        try:
            while True:
                await self._run_once()
                if self._failure is not None:
                    return
                await self._pause()
        finally:
            watchdog.cancel()
            await self._shut_down()

    async def _run_once(self) -> None:
        """One engine's life, from launch to its end."""
        started = time.monotonic()
        try:
            connection = await Connection.open(await self._launcher.launch(), self._on_report)
            self._connection = connection
            await self._load_models(connection)
            await connection.lost.wait()
        except MlxctlError as error:
            self._on_failed_start(error)
        if time.monotonic() - started > _HEALTHY_AFTER_SECONDS:
            self._num_failures = 0
        self._after_death()
        await self._launcher.end(grace_seconds=0.0 if self._failure is None else _END_GRACE_SECONDS)

    async def _load_models(self, connection: Connection) -> None:
        self.lost.clear()
        self._has_lost.clear()
        for source in self._sources:
            try:
                await self._desk.load(connection, source)
            except ModelError as error:
                # What was fine once must not keep the other models from being served.
                if not self._was_ready:
                    connection.close()
                    raise
                _log.error("engine: %s", error)
                self.lost[source.name] = error
                self._has_lost.set()
        self._last_delivery = time.monotonic()
        if self.status != "draining":
            self.status = "ready"
        self._was_ready = True
        self._is_ready.set()

    def _on_failed_start(self, error: MlxctlError) -> None:
        # Before the first success a model that cannot be loaded is the user's to mend, and so is an engine that never comes up;
        # after it, the engine was fine once and is tried again.
        is_hopeless = isinstance(error, ModelError) or self.num_restarts + 1 >= _MAX_FIRST_STARTS
        if not self._was_ready and is_hopeless:
            self._failure = error
            self.status = "failed"
            self._is_ready.set()
        else:
            _log.error("engine: %s", error)

    def _after_death(self) -> None:
        self._connection = None
        self._desk.clear()
        if self._failure is None:
            self._is_ready.clear()
            if self.status != "draining":
                self.status = "recovering"
        self._fail_all(EngineDied("the engine died while it worked on this request"))

    def _fail_all(self, error: MlxctlError) -> None:
        streams, self._streams = self._streams, {}
        self._jobs.fail_all(error)
        self._is_idle.set()
        for stream in streams.values():
            stream.fail(error)
        for answer in self._questions.values():
            if not answer.done():
                answer.set_exception(error)

    async def _pause(self) -> None:
        self.num_restarts += 1
        pause = min(_FIRST_BACKOFF_SECONDS * 2**self._num_failures, self._settings.restart_backoff_max_seconds)
        self._num_failures = min(self._num_failures + 1, 16)
        _log.warning("engine: it ended; starting again in %.2f s", pause)
        await asyncio.sleep(pause)

    async def _shut_down(self) -> None:
        if self._connection is not None:
            self._connection.send(Stop())
            await self._launcher.end(grace_seconds=_END_GRACE_SECONDS)
            self._connection.close()
            self._connection = None
        else:
            await self._launcher.end(grace_seconds=0.0)

    async def _watch_delivery(self) -> None:
        """Kill an engine that has rows and delivers nothing."""
        stall = self._settings.stall_seconds
        while True:
            await asyncio.sleep(min(stall / 4, 5.0))
            if self.status == "ready" and self.num_open and time.monotonic() - self._last_delivery > stall:
                _log.error("engine: nothing was delivered for %.0f s though %d requests run; ending it", stall, self.num_open)
                await self._launcher.end(grace_seconds=0.0)

    def _on_report(self, report: AnyReport) -> None:
        match report:
            case Step():
                self._deliver(report)
            case Embedded() | Transcribed():
                self._last_delivery = time.monotonic()
                self._jobs.take(report)
            case Hello():
                self.hello = report
            case ModelLoaded():
                self._desk.on_loaded(report)
            case ModelFailed():
                self._desk.on_failed(report)
            case ModelUnloaded():
                self._desk.on_unloaded(report)
            case Stats() | LookedUp() | CacheAnswer():
                answer = self._questions.get(report.token)
                if answer is not None and not answer.done():
                    answer.set_result(report)
            case _:
                assert_never(report)

    def _deliver(self, step: Step) -> None:
        self._last_delivery = time.monotonic()
        for update in step.rows:
            stream = self._streams.get(update.sequence_id)
            # A row may have been cancelled while its step was on the way.
            if stream is not None:
                stream.put(update)
                if stream.is_closed:
                    self._remove(stream)

    def _cancel(self, stream: TokenStream) -> None:
        self._remove(stream)
        if self._connection is not None:
            self._connection.send(Cancel(sequence_ids=[stream.sequence_id]))

    def _remove(self, stream: TokenStream) -> None:
        self._streams.pop(stream.sequence_id, None)
        self._note_end()

    def _note_end(self) -> None:
        if not self.num_open:
            self._is_idle.set()


def _lifetime(cache: CacheOptions, num_longer_tokens: int) -> Lifetime:
    longer_seconds = cache.longer.ttl_seconds if cache.longer else None
    return Lifetime(seconds=cache.ttl_seconds, num_longer_tokens=num_longer_tokens, longer_seconds=longer_seconds)
