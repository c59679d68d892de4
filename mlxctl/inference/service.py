"""Local inference: resolves models, prepares requests and submits them. Event-loop thread only."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, aclosing
from dataclasses import replace

from msgspec import structs

from mlxctl.engine import EngineClient, EngineStatus, Hello, Stats
from mlxctl.inference.active_agents import ActiveAgents
from mlxctl.inference.answers import Answers
from mlxctl.inference.cache import CacheView
from mlxctl.inference.call_context import CallContext
from mlxctl.inference.embedding import embed
from mlxctl.inference.guarded_answers import GuardedAnswers
from mlxctl.inference.image_fetching import ImageFetcher
from mlxctl.inference.models.lora_registry import LoraRegistry
from mlxctl.inference.models.manager import Models
from mlxctl.inference.models.refresh import ModelRefresh
from mlxctl.inference.models.registry import ModelRegistry
from mlxctl.inference.models.startup_probe import StartupProbe
from mlxctl.inference.preparation import PackedRequest, PreparationPool, jobs
from mlxctl.inference.preparation.packed_request import PackedTexts
from mlxctl.inference.request_entry import RequestView
from mlxctl.inference.request_log import RequestLog
from mlxctl.inference.request_totals import ModelTotals
from mlxctl.inference.screening import Screened, output_rules, screen
from mlxctl.inference.session import ModelSession
from mlxctl.inference.speech import SpokenText, check_request
from mlxctl.inference.submission import Submissions, review
from mlxctl.inference.tokenization import Tokenization
from mlxctl.inference.transcription import helpers_of, transcribe
from mlxctl.ir import (
    EmbeddingResult,
    Purpose,
    SpeechChunk,
    SpeechRequest,
    SpeechSegment,
    TranscriptionRequest,
    TranscriptionResult,
)
from mlxctl.ir.allowed_models import EVERY_MODEL, AllowedModels
from mlxctl.ir.errors import MlxctlError, PermissionDenied, UnknownResource
from mlxctl.ir.scheduler_policy import SchedulerPolicy
from mlxctl.ir.timed_phases import add_phases
from mlxctl.state.settings import PoolSettings, VisionSettings

NO_POOL = PoolSettings()


class InferenceService:
    """Serves models through one engine.

    `wait_ready` fails when no model can be served; after that, a model that cannot be used fails the requests
    that name it, and no others. A caller sees and uses the models that it is `allowed`; others are unknown to
    it. `LocalInference` is for the operator, who has all.
    """

    def __init__(
        self,
        engine: EngineClient,
        registry: ModelRegistry,
        lora: LoraRegistry,
        *,
        pool: PoolSettings = NO_POOL,
        max_waiting: int = 256,
        preparation: PreparationPool | None = None,
        startup_probe: StartupProbe | None = None,
        refresh: ModelRefresh | None = None,
        images: ImageFetcher | None = None,
    ) -> None:
        self._engine = engine
        self.preparation = preparation or PreparationPool()
        self.models = Models(
            engine,
            self.preparation,
            registry,
            lora,
            settings=pool,
            max_waiting=max_waiting,
            startup_probe=startup_probe,
            refresh=refresh,
        )
        self.log = RequestLog()
        self.cache = CacheView(engine, self.preparation, self.models)
        self.images = images or ImageFetcher(VisionSettings(), max_request_bytes=0)
        self.tokenization = Tokenization(self.preparation, self.models, self.images)
        self.agents = ActiveAgents(engine)
        self._submissions = Submissions(engine, self.preparation, self.cache, self.agents, self.log)
        self._opening: asyncio.Task[None] | None = None
        self._failure: MlxctlError | None = None

    async def open(self) -> None:
        """Begin to load; returns at once."""
        self.preparation.start()
        self._opening = asyncio.create_task(self._open(), name="open-inference")

    async def wait_ready(self) -> None:
        """Wait until requests are accepted.

        Raises the ModelError of the model that is loaded at the start, and EngineDied.
        """
        assert self._opening is not None, "open() comes first"
        await asyncio.shield(self._opening)
        if self._failure is not None:
            raise self._failure

    async def close(self, *, drain_seconds: float) -> None:
        """Reject new requests, drain the open ones, then stop the engine."""
        if self._opening is not None:
            self._opening.cancel()
            await asyncio.wait({self._opening})
        self.agents.close()
        await self.models.close()
        await self._engine.stop(drain_seconds=drain_seconds)
        await self.preparation.close()
        self.images.close()

    @property
    def status(self) -> EngineStatus:
        """State of the engine.

        "ready" only when requests can be prepared and no model is missing.
        """
        if self._failure is not None:
            return "failed"
        if self._engine.status == "ready" and not self.models.is_open:
            return "starting"
        if self._engine.status == "ready" and self.models.problem(EVERY_MODEL) is not None:
            return "recovering"
        return self._engine.status

    @property
    def is_serving(self) -> bool:
        """Whether requests are accepted, though models may be missing."""
        return self._failure is None and self._engine.status == "ready" and self.models.is_open

    @property
    def engine(self) -> Hello | None:
        """Process id, device and limits of the running engine.

        None before it has started.
        """
        return self._engine.hello

    @property
    def num_engine_restarts(self) -> int:
        """Number of engine restarts."""
        return self._engine.num_restarts

    @property
    def scheduler_policy(self) -> SchedulerPolicy:
        """The scheduler's policy in force."""
        return self._engine.policy

    @property
    def max_queue(self) -> int:
        """Requests that may wait for a place in the batch."""
        return self._engine.max_queue

    def configure_scheduler(self, policy: SchedulerPolicy, *, max_queue: int | None = None) -> None:
        """Change the scheduler's policy and, if given, the length of the queue."""
        if max_queue is not None:
            self._engine.max_queue = max_queue
        self._engine.configure_scheduler(policy)

    @property
    def stats_age_seconds(self) -> float:
        """Time since the engine reported what `engine_stats` returned last."""
        return self._engine.stats_age_seconds

    async def engine_stats(self) -> Stats:
        """Return the engine's counters. Raises EngineRecovering, EngineDied."""
        return await self._engine.stats()

    def requests(self, allowed: AllowedModels, caller: str | None = None) -> list[RequestView]:
        """Return open and recently ended requests.

        Those of all callers, or of one.
        """
        return [view for view in self.log.views(caller) if self.models.is_allowed(view.model, allowed)]

    def cancel(self, request_id: str, allowed: AllowedModels, *, caller: str | None = None) -> list[int]:
        """Cancel an open request by its number or HTTP request id.

        Returns the numbers of its answers. `caller` restricts it to one caller's requests. Raises
        UnknownResource, PermissionDenied.
        """
        found = self.log.find_open(request_id)
        entries = [entry for entry in found if self.models.is_allowed(entry.model, allowed)]
        if not entries:
            raise UnknownResource(f"there is no open request {request_id[:128]!r}")
        own = [entry for entry in entries if caller in (None, entry.caller)]
        if not own:
            raise PermissionDenied(f"request {request_id[:128]!r} is another caller's; it needs an admin key")
        for entry in own:
            entry.cancel()
        return [entry.number for entry in own]

    def totals(self, allowed: AllowedModels) -> Mapping[str, ModelTotals]:
        """Return totals over all ended requests, by model name."""
        totals = self.log.totals.items()
        return {name: total for name, total in totals if self.models.is_allowed(name, allowed)}

    @property
    def vision_seconds(self) -> float:
        """Time of the vision encoder for all ended requests."""
        return sum(totals.vision.total for totals in self.log.totals.values())

    async def generate_all(self, request: PackedRequest, call: CallContext) -> Answers:
        """Start every answer that a request asks for: all or none.

        Loads its model if necessary. The rules of the call apply to prompts and answers. Raises
        RequestError, CapacityError or ModelUnavailable before anything is generated.
        """
        call.record.name_model(request.head.model)
        model = self.models.own_name(request.head.model)
        # The rules apply to the text of documents, too.
        read = await self.tokenization.with_documents(call.bind(request), call)
        screened = await screen(read, call, model=model, preparation=self.preparation)
        rules = output_rules(model, call)
        keep = request.head.keep_alive
        self.models.keep_alive_if_new(request.head.model, keep, call)
        answers = await self._start(screened, call)
        if keep is not None and not keep.new_only:
            self.models.keep_alive(request.head.model, keep, call)
        return answers if rules is None else GuardedAnswers(answers, rules)

    async def _start(self, screened: Screened[PackedRequest], call: CallContext) -> Answers:
        request = self.models.lora.apply(screened.content, call.models)
        request = await self.tokenization.with_images(request, call)
        session, lease = await self.models.use(request.head.model, call)
        try:
            prepared: jobs.Preparation = await self.preparation.run_on(
                jobs.prepare, request, model=session.name
            )
            add_phases(prepared.phases)
            if request.head.scores_prompt:
                # Prompt log-probabilities are computed without the cache; explanations must say the same.
                request = request.with_head(cache=replace(request.head.cache, mode="off"))
            await review(session, request, prepared, call)
            # Nothing waits between this and the submission, and the engine keeps what it has taken.
            await self.models.lora.ensure_mounted(session.name, request.head)
            generations = self._submissions.submit(session, lease, request, prepared, call)
        finally:
            lease.release()
        num_prompt_tokens = sum(len(prompt.token_ids) for prompt in prepared.inputs)
        return Answers(generations, num_prompt_tokens=num_prompt_tokens, sampling=prepared.inputs[0].sampling)

    async def embed(self, packed: PackedTexts, call: CallContext) -> EmbeddingResult:
        """Return a vector for each text: all or none.

        Loads the model if necessary. The rules of the call apply to the texts. Raises RequestError,
        CapacityError, EngineError.
        """
        call.record.name_model(packed.head.model)
        model = self.models.own_name(packed.head.model)
        texts = await screen(packed, call, model=model, preparation=self.preparation)
        session, lease = await self.models.use(packed.head.model, call, purpose="embeddings")
        try:
            result = await embed(texts, call, session=session, preparation=self.preparation, log=self.log)
        finally:
            lease.release()
        self.models.keep_alive(packed.head.model, packed.head.keep_alive, call)
        return result

    async def transcribe(
        self,
        request: TranscriptionRequest,
        call: CallContext,
        *,
        on_segments: Callable[[Sequence[SpeechSegment]], None] = lambda _: None,
    ) -> TranscriptionResult:
        """Transcribe an audio file, loading the model if necessary.

        `on_segments` gets the segments of each window as soon as it is decoded. The rules of the HTTP request
        apply to the prompt and to the text. Raises what `embed` does.
        """
        call.record.name_model(request.model)
        model = self.models.own_name(request.model)
        before = "\n".join(part for part in (request.prompt.strip(), ", ".join(request.keywords)) if part)
        prompt = await screen(before, call, model=model, preparation=self.preparation)
        async with AsyncExitStack() as leases:
            session, lease = await self.models.use(request.model, call, purpose="transcription")
            leases.callback(lease.release)
            helpers: dict[Purpose, ModelSession] = {}
            for purpose, missing in helpers_of(request, session):
                if (name := self._first_for(purpose, call)) is None:
                    raise missing
                helpers[purpose], lease = await self.models.use(name, call, purpose=purpose)
                leases.callback(lease.release)
            return await transcribe(
                request,
                prompt,
                call,
                session=session,
                aligner=helpers.get("alignment"),
                diarizer=helpers.get("diarization"),
                rules=output_rules(model, call),
                preparation=self.preparation,
                log=self.log,
                on_segments=on_segments,
            )

    def _first_for(self, purpose: Purpose, call: CallContext) -> str | None:
        """Return the first model for a purpose that the caller may use."""
        models = self.models.served(call.models)
        return next((each.name for each in models if each.facts.purpose == purpose), None)

    async def speak(self, request: SpeechRequest, call: CallContext) -> AsyncGenerator[SpeechChunk, None]:
        """Speak a text, loading the model if necessary; the last chunk `is_last`.

        Closing the iterator cancels the rest. The rules of the HTTP request apply to the text. Raises what
        `embed` does, UnknownVoice and InvalidRequest with the first chunk.
        """
        call.record.name_model(request.model)
        model = await self.models.find(request.model, call, "speech")
        recipe = model.facts.speech
        assert recipe is not None, "only speech models are found here"
        checked = check_request(request, recipe)
        text = await screen(checked.text, call, model=model.name, preparation=self.preparation)
        instructions = await screen(
            checked.instructions or "", call, model=model.name, preparation=self.preparation
        )
        checked = structs.replace(checked, text=text.content, instructions=instructions.content or None)
        session, lease = await self.models.use(request.model, call, purpose="speech")
        try:
            entry = self.log.begin(request.model, call, num_prompt_tokens=0)
            spoken = SpokenText(checked, recipe, call, session=session, entry=entry)
            async with aclosing(spoken.chunks()) as chunks:
                async for chunk in chunks:
                    yield chunk
        finally:
            lease.release()

    @property
    def max_places(self) -> int:
        """Most answers in batch and queue together."""
        return self._engine.max_places

    async def _open(self) -> None:
        try:
            await self.models.start()
            await self.models.lora.mount_configured()
        except MlxctlError as error:
            self._failure = error
