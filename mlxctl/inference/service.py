"""The one place where a request meets a model: resolve, load, prepare, submit, events.

Event-loop thread only.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from mlxctl.adapters.answer_reader import AnswerReader
from mlxctl.engine import EngineClient, EngineStatus, Hello, Stats
from mlxctl.errors import MlxctlError
from mlxctl.inference.answers import Answers, choice_of
from mlxctl.inference.cache import CacheInspector, Explanation
from mlxctl.inference.embedding import embed
from mlxctl.inference.generation import Generation
from mlxctl.inference.models.lease import Lease
from mlxctl.inference.models.manager import ModelManager
from mlxctl.inference.models.registry import FindModel, ModelRegistry
from mlxctl.inference.models.served_model import LookedUpPrompt, ModelToServe, ServedModel, UnusableModel
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.inference.preparation.packed_request import PackedTexts
from mlxctl.inference.prompt_echo import Echo
from mlxctl.inference.request_log import RequestLog, RequestView
from mlxctl.inference.request_totals import ModelTotals
from mlxctl.inference.transcription import transcribe
from mlxctl.ir import (
    EmbeddingResult,
    GenerationRequest,
    ToneCurveOptions,
    TranscriptionRequest,
    TranscriptionResult,
)
from mlxctl.ir.tokens import prompt_salts
from mlxctl.settings import PoolSettings

ALONE = PoolSettings()
_NO_CURVE = ToneCurveOptions()


class InferenceService:
    """Serves models through one engine.

    The first usable one of `models` is loaded at the start, the others and those of `others` when first asked
    for; `unusable` are known by name only, and `find` looks up further ones. `wait_ready` fails when no model
    can be served; after that a model that cannot be used fails the requests that name it, and no others.
    """

    def __init__(
        self,
        engine: EngineClient,
        models: Sequence[ModelToServe],
        *,
        others: Sequence[ModelToServe] = (),
        unusable: Sequence[UnusableModel] = (),
        find: FindModel | None = None,
        pool: PoolSettings = ALONE,
        max_waiting: int = 256,
        strip_agent_headers: bool = True,
        tone_curve: ToneCurveOptions = _NO_CURVE,
        preparation: PreparationPool | None = None,
    ) -> None:
        """With `strip_agent_headers` prompts go without the lines of `adapters.agent_headers`.

        `tone_curve` is the one for requests that say nothing else.
        """
        registry = ModelRegistry([*models, *others], unusable=unusable, find=find)
        self._engine = engine
        self.preparation = preparation or PreparationPool()
        self.pool = ModelManager(
            engine, self.preparation, registry, at_start=models, settings=pool, max_waiting=max_waiting
        )
        self._manners = jobs.Manners(strips_headers=strip_agent_headers, tone_curve=tone_curve)
        self._log = RequestLog()
        self.cache = CacheInspector(engine, self.preparation, self.pool)
        self._opening: asyncio.Task[None] | None = None
        self._failure: MlxctlError | None = None

    async def open(self) -> None:
        """Begin to load; returns at once."""
        self.preparation.start()
        self._opening = asyncio.create_task(self._open(), name="opening")

    async def wait_ready(self) -> None:
        """Wait until requests are taken.

        Raises the ModelError of the model that was to be loaded, and EngineDied.
        """
        assert self._opening is not None, "open() comes first"
        await asyncio.shield(self._opening)
        if self._failure is not None:
            raise self._failure

    async def close(self, *, drain_seconds: float) -> None:
        """Refuse new requests, let the open ones finish for a while, cancel the rest, end the engine."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        await self.pool.close()
        await self._engine.stop(drain_seconds=drain_seconds)
        await self.preparation.close()

    @property
    def status(self) -> EngineStatus:
        """How the engine is; "ready" only once requests can be prepared, too, and while every model of the
        start is there.
        """
        if self._failure is not None:
            return "failed"
        if self._engine.status == "ready" and not self.pool.is_open:
            return "starting"
        if self._engine.status == "ready" and self.problem is not None:
            return "recovering"
        return self._engine.status

    @property
    def problem(self) -> str | None:
        """What keeps the server from being ready though its engine runs.

        Other models than those it names are served.
        """
        return self.pool.problem

    @property
    def engine(self) -> Hello | None:
        """What the running engine said of itself; None before it is up."""
        return self._engine.hello

    @property
    def num_engine_restarts(self) -> int:
        """How often the engine had to be started again."""
        return self._engine.num_restarts

    async def stats(self) -> Stats:
        """Ask the engine for its counters. Raises EngineRecovering, EngineDied."""
        return await self._engine.stats()

    def requests(self, caller: str | None = None) -> list[RequestView]:
        """How the open requests of all callers, or of one, are, and how the last ones went."""
        return self._log.views(caller)

    def totals(self) -> Mapping[str, ModelTotals]:
        """What all ended requests came to, by the name of their model."""
        return self._log.totals

    def served_models(self) -> tuple[ServedModel, ...]:
        """The models that requests can name; the first is the one that is loaded at the start."""
        return self.pool.served()

    async def start(self, request: GenerationRequest) -> Generation:
        """Submit a request for one answer. Raises what `start_all` does."""
        answers = await self.start_all(PackedRequest.of(request))
        assert len(answers.generations) == 1, "several answers are started together"
        return answers.generations[0]

    async def start_all(self, request: PackedRequest) -> Answers:
        """Submit a request for any number of answers, after its model was loaded if need be: all of them, or
        none.

        Raises RequestError, CapacityError or ModelUnavailable before anything was generated.
        """
        adapter, lease = await self.pool.use(request.head.model)
        try:
            prepared: jobs.Preparation = await self._prepare(jobs.prepare, request, model=lease.name)
            if request.head.scores_prompt:
                # So the engine takes it, and so it is to be explained.
                request = request.with_head(cache=replace(request.head.cache, mode="off"))
            generations = self._submit_all(adapter, lease, request, prepared)
        finally:
            lease.release()
        num_prompt_tokens = sum(len(prompt.token_ids) for prompt in prepared.inputs)
        return Answers(generations, num_prompt_tokens=num_prompt_tokens, sampling=prepared.inputs[0].sampling)

    async def embed(self, request: PackedTexts, *, request_id: str = "") -> EmbeddingResult:
        """Make a vector of each text, after the model was loaded if need be; all of them, or none.

        Raises RequestError, CapacityError, EngineError.
        """
        _, lease = await self.pool.use(request.head.model, purpose="embeddings")
        try:
            return await embed(
                request,
                engine=self._engine,
                preparation=self.preparation,
                lease=lease,
                log=self._log,
                request_id=request_id,
            )
        finally:
            lease.release()

    async def transcribe(self, request: TranscriptionRequest) -> TranscriptionResult:
        """Write down what is said in a sound file, after the model was loaded if need be.

        Raises what `embed` does.
        """
        adapter, lease = await self.pool.use(request.model, purpose="transcription")
        try:
            return await transcribe(
                request,
                engine=self._engine,
                preparation=self.preparation,
                adapter=adapter,
                lease=lease,
                log=self._log,
            )
        finally:
            lease.release()

    async def count_tokens(self, request: PackedRequest) -> int:
        """Count the tokens of a conversation's prompt, which may be longer than the model takes.

        Loads no weights.

        Raises RequestError, ModelUnavailable, EngineRecovering.
        """
        adapter = await self.pool.adapter(request.head.model)
        num_tokens: int = await self._prepare(jobs.count_tokens, request, model=adapter.name)
        return num_tokens

    async def explain(self, request: PackedRequest) -> Explanation:
        """Explain how much of a conversation's prompt is computed already, and why not more.

        Raises what `start` does.
        """
        return await self.cache.explain_request(request, self._manners)

    async def look_up(self, request: PackedRequest) -> LookedUpPrompt:
        """Say how long a conversation's prompt is, and how much of it is computed already.

        Raises what `start` does.
        """
        _, lease = await self.pool.use(request.head.model)
        try:
            prompt: jobs.PackedPrompt = await self._prepare(jobs.prompt_tokens, request, model=lease.name)
            found = await self._engine.look_up(lease.name, prompt.token_ids, prompt.salts)
        finally:
            lease.release()
        return LookedUpPrompt(
            num_prompt_tokens=len(prompt.token_ids),
            num_cached_tokens=found.num_cached,
            num_tokens_on_disk=found.num_on_disk,
        )

    async def _prepare(self, function: Callable[..., Any], request: PackedRequest, *, model: str) -> Any:
        size, knows_answers = request.num_bytes, request.has_answers
        return await self.preparation.run(
            function, request, self._manners, num_bytes=size, model=model, knows_answers=knows_answers
        )

    def _submit_all(
        self, adapter: AnswerReader, lease: Lease, request: PackedRequest, prepared: jobs.Preparation
    ) -> list[Generation]:
        generations: list[Generation] = []
        try:
            for number in range(len(prepared.inputs)):
                for index in range(request.head.num_choices):
                    # What was begun has to be known when one is refused.
                    generations.append(self._submit(adapter, lease, request, prepared, number, index))  # noqa: PERF401
        except MlxctlError:
            for generation in generations:
                generation.cancel()
            raise
        return generations

    def _submit(
        self,
        adapter: AnswerReader,
        lease: Lease,
        request: PackedRequest,
        preparation: jobs.Preparation,
        number: int,
        index: int,
    ) -> Generation:
        """Submit choice `index` of prompt `number`."""
        head, prepared = request.head, choice_of(preparation.inputs[number], index)
        processor = adapter.create_stream_processor(head, prepared)
        tokens = self._engine.submit(
            model=lease.name,
            prompt_token_ids=prepared.token_ids,
            sampling=prepared.sampling,
            stop_token_ids=frozenset() if head.ignore_eos else prepared.stop_token_ids,
            max_tokens=prepared.max_tokens,
            priority=head.priority,
            fairness_key=head.fairness_key,
            request_id=head.request_id,
            cache=head.cache,
            num_long_ttl_tokens=prepared.num_long_ttl_tokens,
            guidance=prepared.guidance,
            images=prepared.images,
            scores_prompt=prepared.scores_prompt,
        )
        num_prompt_tokens = len(prepared.token_ids)
        entry = self._log.begin(head.model, num_prompt_tokens=num_prompt_tokens, caller=head.fairness_key)
        seen = preparation.seen.with_head(cache=head.cache) if preparation.seen is not None else request
        salts = prompt_salts(head.cache.namespace, prepared.images)
        return Generation(
            tokens,
            processor,
            entry,
            self.cache.begin(seen, prepared.token_ids, salts, model=lease.name),
            num_prompt_tokens=num_prompt_tokens,
            on_complete=partial(self.preparation.remember, lease.name, preparation.opened[number]),
            on_end=lease.share().release,
            echo=Echo.of(prepared, adapter),
        )

    async def _open(self) -> None:
        try:
            await self.pool.start()
        except MlxctlError as error:
            self._failure = error
