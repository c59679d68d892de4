"""The front's client of the engine. Event-loop thread only."""

import asyncio
import itertools
from array import array
from collections.abc import Sequence
from functools import partial
from typing import Any, assert_never

from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.client.launcher import Launcher
from mlxctl.engine.client.pending_jobs import PendingJobs, transcribed_window
from mlxctl.engine.client.supervisor import Answer, EngineSupervisor
from mlxctl.engine.client.token_stream import TokenStream
from mlxctl.engine.client.vector_collector import VectorCollector
from mlxctl.engine.wire.messages import (
    AskCache,
    AudioWindow,
    CacheAction,
    CacheAnswer,
    Cancel,
    Embed,
    JobReport,
    LookedUp,
    LookUp,
    ReadGrammarVocabulary,
    ReportStats,
    Stats,
    Step,
    Submit,
    Transcribe,
    TranscribedWindow,
)
from mlxctl.errors import MlxctlError, QueueFull
from mlxctl.ir import CacheOptions, Guidance, ProcessedImage, SamplingParams
from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.policy import Lifetime
from mlxctl.settings import EngineSettings

_ALL_CACHED = CacheOptions()


class EngineClient(EngineSupervisor):
    """Multiplexes sequences, jobs and queries over one socket; restarts a dead engine.

    When the engine dies, open streams end with EngineDied, and new requests raise EngineRecovering until the
    next engine is ready.
    """

    def __init__(self, launcher: Launcher, settings: EngineSettings, *, max_queue: int) -> None:
        super().__init__(launcher, settings)
        self._max_queue = max_queue
        self._streams: dict[int, TokenStream] = {}
        self._questions: dict[int, asyncio.Future[Any]] = {}
        self._numbers = itertools.count(1)
        self._jobs = PendingJobs(on_empty=self._note_end)

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
        request_id: str = "",
        cache: CacheOptions = _ALL_CACHED,
        num_long_ttl_tokens: int = 0,
        guidance: Guidance | None = None,
        images: Sequence[ProcessedImage] = (),
        scores_prompt: bool = False,
    ) -> TokenStream:
        """Start a sequence. Raises EngineRecovering, ShuttingDown, QueueFull.

        `num_long_ttl_tokens` are the first prompt tokens, cached with `cache.longer`. `request_id` stands in
        the engine's log and error messages.
        """
        connection = self._begin()
        stream = TokenStream(next(self._numbers), self._cancel)
        self._streams[stream.sequence_id] = stream
        connection.send(
            Submit(
                sequence_id=stream.sequence_id,
                request_id=request_id,
                model=model,
                prompt_token_ids=array("I", prompt_token_ids).tobytes(),
                sampling=sampling,
                stop_token_ids=sorted(stop_token_ids),
                max_tokens=max_tokens,
                priority=priority,
                fairness_key=fairness_key,
                cache_mode=cache.mode,
                cache_namespace=cache.namespace,
                lifetime=_lifetime(cache, num_long_ttl_tokens),
                guidance=guidance,
                images=list(images),
                scores_prompt=scores_prompt,
            )
        )
        return stream

    async def embed(
        self,
        *,
        model: str,
        texts: Sequence[Sequence[int]],
        dimensions: int | None = None,
        request_id: str = "",
    ) -> list[bytes]:
        """Return a vector (packed float32) for each text of token ids. Cancelling the task stops the work.

        Raises EngineRecovering, ShuttingDown, QueueFull, EngineDied, SequenceFailed.
        """
        packed = [array("I", text).tobytes() for text in texts]
        command = partial(Embed, model=model, texts=packed, dimensions=dimensions, request_id=request_id)
        return await self._jobs.run(
            self._begin(), next(self._numbers), command, VectorCollector(len(texts)).take
        )

    async def transcribe(self, window: AudioWindow, *, request_id: str = "") -> TranscribedWindow:
        """Return the transcript of an audio window. Cancelling the task stops the work.

        Raises as `embed`.
        """
        command = partial(Transcribe, window=window, request_id=request_id)
        return await self._jobs.run(self._begin(), next(self._numbers), command, transcribed_window)

    def read_grammar_vocabulary(self, name: str, stop_token_ids: frozenset[int]) -> None:
        """Prepare grammar matching for a loaded model.

        Raises EngineRecovering, ShuttingDown.
        """
        self._ready_connection().send(ReadGrammarVocabulary(name=name, stop_token_ids=sorted(stop_token_ids)))

    async def stats(self) -> Stats:
        """Return the engine's figures. Raises EngineRecovering, EngineDied."""
        answer: Stats = await self._ask(ReportStats(token=next(self._numbers)))
        return answer

    async def look_up(
        self, model: str, prompt_token_ids: Sequence[int], salts: Sequence[Salt] = ()
    ) -> LookedUp:
        """Return how much of a prompt is cached; `salts` as in LookUp.

        Raises EngineRecovering, EngineDied.
        """
        packed = array("I", prompt_token_ids).tobytes()
        asked = LookUp(token=next(self._numbers), model=model, prompt_token_ids=packed, salts=list(salts))
        answer: LookedUp = await self._ask(asked)
        return answer

    async def ask_cache(
        self, action: CacheAction, *, keys: Sequence[bytes] = (), offset: int = 0, limit: int = 0
    ) -> CacheAnswer:
        """Return a page of cached chunks, or change the prefix cache; see AskCache.

        Raises EngineRecovering, EngineDied.
        """
        asked = AskCache(
            token=next(self._numbers), action=action, keys=list(keys), offset=offset, limit=limit
        )
        answer: CacheAnswer = await self._ask(asked)
        return answer

    @property
    def num_open(self) -> int:
        """Open sequences and jobs."""
        return len(self._streams) + len(self._jobs)

    async def _ask(self, question: ReportStats | LookUp | AskCache) -> Any:
        connection = self._ready_connection(even_draining=True)
        answer = self._questions[question.token] = asyncio.get_running_loop().create_future()
        connection.send(question)
        try:
            return await answer
        finally:
            self._questions.pop(question.token, None)

    def _begin(self) -> EngineConnection:
        """Check that one more request can be sent; return the connection.

        Raises EngineRecovering, ShuttingDown, QueueFull.
        """
        connection = self._ready_connection()
        num_waiting = sum(not stream.has_started for stream in self._streams.values()) + len(self._jobs)
        if num_waiting >= self._max_queue + self._settings.max_rows:
            raise QueueFull(f"{num_waiting} requests are waiting already", retry_after_seconds=2.0)
        if not self.num_open:
            self._note_delivery()
        self._is_idle.clear()
        return connection

    def _fail_all(self, error: MlxctlError) -> None:
        streams, self._streams = self._streams, {}
        self._jobs.fail_all(error)
        self._is_idle.set()
        for stream in streams.values():
            stream.fail(error)
        for answer in self._questions.values():
            if not answer.done():
                answer.set_exception(error)

    def _take(self, answer: Answer) -> None:
        match answer:
            case Step():
                self._deliver(answer)
            case JobReport():
                self._note_delivery()
                self._jobs.take(answer)
            case Stats() | LookedUp() | CacheAnswer():
                asked = self._questions.get(answer.token)
                if asked is not None and not asked.done():
                    asked.set_result(answer)
            case _:
                assert_never(answer)

    def _deliver(self, step: Step) -> None:
        self._note_delivery()
        for update in step.rows:
            stream = self._streams.get(update.sequence_id)
            # A row may have been cancelled before its step was received.
            if stream is not None:
                stream.put(update)
                if stream.is_closed:
                    self._remove(stream)

    def _cancel(self, stream: TokenStream) -> None:
        self._remove(stream)
        if self._connection is not None:
            self._connection.send(Cancel(ids=[stream.sequence_id]))

    def _remove(self, stream: TokenStream) -> None:
        self._streams.pop(stream.sequence_id, None)
        self._note_end()

    def _note_end(self) -> None:
        if not self.num_open:
            self._is_idle.set()


def _lifetime(cache: CacheOptions, num_long_ttl_tokens: int) -> Lifetime:
    long_ttl_seconds = cache.long_ttl.ttl_seconds if cache.long_ttl else None
    return Lifetime(
        seconds=cache.ttl_seconds, num_long_ttl_tokens=num_long_ttl_tokens, long_ttl_seconds=long_ttl_seconds
    )
