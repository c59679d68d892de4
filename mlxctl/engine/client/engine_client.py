"""The front's client of the engine. Event-loop thread only."""

import asyncio
import contextlib
import itertools
import time
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from functools import partial
from typing import Any, Literal

from mlxctl.engine.client.connection import EngineConnection
from mlxctl.engine.client.launcher import Launcher
from mlxctl.engine.client.open_requests import OpenRequests
from mlxctl.engine.client.pending_jobs import VectorCollector
from mlxctl.engine.client.supervisor import EngineStatus, EngineSupervisor
from mlxctl.engine.client.token_stream import ReadingRules, TokenStream
from mlxctl.engine.wire.commands import (
    AskCache,
    CacheAction,
    Cancel,
    ConfigureCache,
    ConfigureScheduler,
    LookUp,
    MountLora,
    Pause,
    QueryCommand,
    ReadGrammarVocabulary,
    ReportStats,
    Submit,
    UnmountLora,
    Unpause,
)
from mlxctl.engine.wire.jobs import (
    AudioWindow,
    Embed,
    JobCommand,
    Transcribe,
    Transcribed,
    TranscribedWindow,
)
from mlxctl.engine.wire.reports import (
    CacheAnswer,
    Hello,
    LookedUp,
    LoraChanged,
    ModelLoaded,
    ModelUnloaded,
    Stats,
)
from mlxctl.ir import CacheOptions, ModelSpec
from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.ir.errors import InvalidRequest, ModelError, QueueFull
from mlxctl.ir.lora import LoraSpec
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.tokens import Salt, pack
from mlxctl.prefix_cache.policy import Lifetime
from mlxctl.state.settings import EngineSettings, SchedulerSettings, scheduler_policy

_DEFAULT_SCHEDULER = SchedulerSettings()
# A policy: monitors and scrapers give up after 5 to 10 seconds.
_STATS_SECONDS = 4.0


class EngineClient:
    """Multiplexes sequences, jobs and queries over one socket; restarts a dead engine.

    When the engine dies, open streams end with EngineDied, and new requests raise EngineRecovering until the
    next engine is ready.
    """

    def __init__(
        self,
        launcher: Launcher,
        settings: EngineSettings,
        *,
        max_queue: int,
        scheduler: SchedulerSettings = _DEFAULT_SCHEDULER,
    ) -> None:
        self._settings = settings
        self.max_queue = max_queue
        self._requests = OpenRequests(num_rows=settings.max_rows)
        self._supervisor = EngineSupervisor(
            launcher, settings, self._requests, scheduler_policy(settings, scheduler)
        )
        self._numbers = itertools.count(1)
        self._last_stats: Stats | None = None
        self._stats_at = 0.0
        self._reading_rules = ReadingRules(
            max_unread_tokens=settings.max_unread_tokens,
            max_pause_seconds=settings.slow_reader_seconds,
            on_pause=self._pause,
        )

    @property
    def status(self) -> EngineStatus:
        """State of the engine."""
        return self._supervisor.status

    @property
    def hello(self) -> Hello | None:
        """Process id, device and limits of the running engine.

        None before it has started.
        """
        return self._supervisor.hello

    @property
    def num_restarts(self) -> int:
        """Number of engine restarts since the start."""
        return self._supervisor.num_restarts

    @property
    def lost(self) -> Mapping[str, ModelError]:
        """Models that could not be loaded again after a restart.

        By name, with their errors.
        """
        return self._supervisor.lost

    @property
    def loaded(self) -> Mapping[str, ModelLoaded]:
        """The models of the running engine, by name."""
        return self._supervisor.loaded

    def num_bytes_read(self, name: str) -> int:
        """Return how many bytes of a loading model are in memory."""
        return self._supervisor.num_bytes_read(name)

    @property
    def num_open(self) -> int:
        """Open sequences and jobs."""
        return self._requests.num_open

    @property
    def admission(self) -> Literal["strict", "prompt"]:
        """Which tokens of a request must fit into memory; see EngineSettings."""
        return self._settings.admission

    @property
    def max_places(self) -> int:
        """Requests that batch and queue can hold."""
        return self.max_queue + self.policy.max_rows

    @property
    def policy(self) -> SchedulerPolicy:
        """The scheduler's policy, which a restarted engine gets as well."""
        return self._supervisor.policy

    def configure_scheduler(self, policy: SchedulerPolicy) -> None:
        """Change the scheduler's policy from its next step on."""
        self._supervisor.policy = policy
        self._requests.pace.num_rows = policy.max_rows
        if self._supervisor.connection is not None:
            self._supervisor.connection.send(ConfigureScheduler(policy=policy))

    @property
    def cache_policy(self) -> CachePolicy:
        """The prefix cache's policy, which a restarted engine gets as well."""
        return self._supervisor.cache_policy

    def configure_cache(self, policy: CachePolicy) -> None:
        """Change the prefix cache's policy.

        A new time to live applies to later requests. Raises InvalidRequest for what ranks do not have.
        """
        if self._settings.is_group and policy.prefix_cache_bits != "full":
            raise InvalidRequest("prefix_cache_bits must be full on several ranks", param="prefix_cache_bits")
        self._supervisor.cache_policy = policy
        if self._supervisor.connection is not None:
            self._supervisor.connection.send(ConfigureCache(policy=policy))

    @property
    def prefix_cache_bytes(self) -> int | None:
        """Most bytes of the prefix cache.

        None before the engine has started, if the settings leave it to the engine.
        """
        if self.cache_policy.prefix_cache_bytes is not None or self.hello is None:
            return self.cache_policy.prefix_cache_bytes
        return self.hello.prefix_cache_bytes

    async def start(self, specs: list[ModelSpec]) -> None:
        """Start the engine with these models, now and after every death.

        See EngineSupervisor.
        """
        await self._supervisor.start(specs)

    async def wait_ready(self) -> None:
        """Wait until the models are loaded for the first time.

        Raises ModelError, EngineDied.
        """
        await self._supervisor.wait_ready()

    async def wait_lost(self) -> None:
        """Wait until a model of the start could not be loaded again."""
        await self._supervisor.wait_lost()

    def check_ready(self) -> None:
        """Raise ModelLoading, EngineRecovering or ShuttingDown if requests are not accepted now."""
        self._supervisor.ready_connection()

    async def load(self, spec: ModelSpec) -> ModelLoaded:
        """Load a model beside the others.

        Raises its ModelError, EngineDied, ModelLoading, EngineRecovering, ShuttingDown.
        """
        return await self._supervisor.load(spec)

    async def unload(self, name: str) -> ModelUnloaded:
        """Unload a model from the engine.

        Raises ModelInUse while it has sequences, EngineDied, ModelLoading, EngineRecovering, ShuttingDown.
        """
        return await self._supervisor.unload(name)

    async def stop(self, *, drain_seconds: float) -> None:
        """Reject new requests, drain open ones, then stop the engine.

        Open requests have `drain_seconds` to finish.
        """
        await self._supervisor.stop(drain_seconds=drain_seconds)

    def submit(self, command: Callable[..., Submit], *, fairness_key: str = "") -> TokenStream:
        """Start a sequence; `command` gets its id and `fairness_key`.

        Raises EngineRecovering, ShuttingDown, QueueFull.
        """
        connection = self._begin(fairness_key)
        stream = TokenStream(
            next(self._numbers), self._cancel, rules=self._reading_rules, fairness_key=fairness_key
        )
        self._requests.add(stream)
        connection.send(command(sequence_id=stream.sequence_id, fairness_key=fairness_key))
        return stream

    def lifetime(self, cache: CacheOptions, num_long_ttl_tokens: int = 0) -> Lifetime:
        """Return how long a request's chunks stay in the prefix cache.

        The first `num_long_ttl_tokens` prompt tokens have the TTL of `cache.long_ttl`. The policy's TTL holds
        where the request sets none.
        """
        default_seconds = self.cache_policy.cache_ttl_seconds
        return Lifetime(
            seconds=default_seconds if cache.ttl_seconds is None else cache.ttl_seconds,
            num_long_ttl_tokens=num_long_ttl_tokens,
            long_ttl_seconds=cache.long_ttl.ttl_seconds if cache.long_ttl else None,
        )

    async def embed(
        self,
        *,
        model: str,
        texts: Sequence[Sequence[int]],
        dimensions: int | None = None,
        request_id: str = "",
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> list[bytes]:
        """Return a vector (packed float32) for each text of token ids.

        `on_tokens` gets the number of tokens of texts as they are computed.
        Cancelling the task stops the work. Raises EngineRecovering, ShuttingDown, QueueFull, EngineDied,
        SequenceFailed.
        """
        packed = [pack(text).tobytes() for text in texts]
        command = partial(Embed, model=model, texts=packed, dimensions=dimensions, request_id=request_id)
        collector = VectorCollector(list(map(len, texts)), on_tokens=on_tokens)
        return await self._requests.jobs.run(self._begin(), next(self._numbers), command, collector.take)

    async def transcribe(self, window: AudioWindow, *, request_id: str = "") -> TranscribedWindow:
        """Return the transcript of an audio window.

        Cancelling the task stops the work. Raises as `embed`.
        """
        command = partial(Transcribe, window=window, request_id=request_id)
        return await self._requests.jobs.run(self._begin(), next(self._numbers), command, _transcript)

    def stream_job(self, command: Callable[..., JobCommand]) -> AsyncGenerator[Any, None]:
        """Yield the reports of a command, of any workload, as they come.

        `command` gets its id. Closing the iterator stops the work. Raises as `embed`.
        """
        return self._requests.jobs.stream(self._begin(), next(self._numbers), command)

    def read_grammar_vocabulary(self, name: str, stop_token_ids: frozenset[int]) -> None:
        """Prepare grammar matching for a loaded model.

        Raises EngineRecovering, ShuttingDown.
        """
        self._supervisor.ready_connection().send(
            ReadGrammarVocabulary(name=name, stop_token_ids=sorted(stop_token_ids))
        )

    async def stats(self) -> Stats:
        """Return the engine's figures, the last ones during a long computation.

        `stats_age_seconds` is their age. Raises EngineRecovering, EngineDied.
        """
        limit = None if self._last_stats is None else _STATS_SECONDS
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(limit):
                self._last_stats = await self._ask(ReportStats)
                self._stats_at = time.monotonic()
        assert self._last_stats is not None, "without earlier figures there is no limit"
        return self._last_stats

    @property
    def stats_age_seconds(self) -> float:
        """Time since the engine reported the last figures."""
        return time.monotonic() - self._stats_at

    async def look_up(
        self, model: str, prompt_token_ids: Sequence[int], salts: Sequence[Salt] = ()
    ) -> LookedUp:
        """Return how much of a prompt is cached; `salts` as in LookUp.

        Raises EngineRecovering, EngineDied.
        """
        packed = pack(prompt_token_ids).tobytes()
        answer: LookedUp = await self._ask(
            partial(LookUp, model=model, prompt_token_ids=packed, salts=list(salts))
        )
        return answer

    async def ask_cache(
        self, action: CacheAction, *, keys: Sequence[bytes] = (), offset: int = 0, limit: int = 0
    ) -> CacheAnswer:
        """Return a page of cached chunks, or change the prefix cache.

        See AskCache. Raises EngineRecovering, EngineDied.
        """
        answer: CacheAnswer = await self._ask(
            partial(AskCache, action=action, keys=list(keys), offset=offset, limit=limit)
        )
        return answer

    async def mount_lora(self, model: str, spec: LoraSpec) -> str:
        """Mount an adapter on a loaded model.

        Returns why it cannot be mounted, or "". Raises EngineRecovering, EngineDied.
        """
        answer: LoraChanged = await self._ask(partial(MountLora, model=model, spec=spec))
        return answer.failure

    async def unmount_lora(self, model: str, name: str) -> str:
        """Unmount an adapter from a loaded model.

        Returns why it cannot be unmounted, or "". Raises as `mount_lora`.
        """
        answer: LoraChanged = await self._ask(partial(UnmountLora, model=model, name=name))
        return answer.failure

    async def _ask(self, query: Callable[..., QueryCommand]) -> Any:
        return await self._requests.queries.ask(self._supervisor.ready_connection(even_draining=True), query)

    def _begin(self, fairness_key: str = "") -> EngineConnection:
        """Check that one more request can be sent; return the connection.

        Raises EngineRecovering, ShuttingDown, QueueFull.
        """
        connection = self._supervisor.ready_connection()
        num_waiting = self._requests.num_waiting
        if num_waiting >= self.max_places and not self._requests.has_share(fairness_key, self.max_places):
            raise QueueFull(
                f"{num_waiting} requests are waiting already",
                retry_after_seconds=self._requests.pace.wait_seconds(num_waiting, now=time.monotonic()),
            )
        self._requests.begin()
        return connection

    def _cancel(self, stream: TokenStream) -> None:
        self._requests.remove(stream)
        if self._supervisor.connection is not None:
            self._supervisor.connection.send(Cancel(ids=[stream.sequence_id]))

    def _pause(self, stream: TokenStream) -> None:
        """Pause or continue the sequence of a stream in the engine."""
        if not stream.is_paused:
            self._requests.note_delivery()
        if self._supervisor.connection is not None:
            command = Pause if stream.is_paused else Unpause
            self._supervisor.connection.send(command(ids=[stream.sequence_id]))


def _transcript(report: Transcribed) -> TranscribedWindow | None:
    """Return the transcript once the report has one."""
    return report.window
