"""The one place where a request meets a model: resolve, prepare, submit, events. Event-loop thread only."""

import asyncio
import logging
import time
from dataclasses import replace
from functools import partial

from mlxctl.adapters import ModelAdapter, PreparedInput, create_adapter
from mlxctl.adapters.agent_headers import without_agent_headers
from mlxctl.engine import EngineClient, EngineStatus, Hello, ModelSource, Stats
from mlxctl.errors import BrokenModel, ContextTooLong, EngineRecovering, MlxctlError, ModelError, UnknownModel
from mlxctl.inference.answers import Answers, choice_of
from mlxctl.inference.generation import Generation
from mlxctl.inference.request_log import RequestLog, RequestView
from mlxctl.inference.served_model import LookedUpPrompt, ModelToServe, ServedModel
from mlxctl.inference.shortening import shortened
from mlxctl.ir import GenerationRequest

# Rendering and tokenising a prompt of fewer characters than this takes less time than handing it to another thread and back.
_INLINE_CHARACTERS = 4096

_log = logging.getLogger(__name__)


class InferenceService:
    """Serves the models that it was given, through one engine.

    Adapters are made once, beside the engine's start. A model that cannot be used fails `wait_ready`, never a request.
    """

    def __init__(self, engine: EngineClient, models: list[ModelToServe], *, strip_agent_headers: bool = True) -> None:
        """With `strip_agent_headers` prompts go without the lines of `adapters.agent_headers`."""
        self._engine = engine
        self._strip_agent_headers = strip_agent_headers
        self._models = models
        self._adapters: dict[str, ModelAdapter] = {}
        self._created = int(time.time())
        self._log = RequestLog()
        self._failure: ModelError | None = None
        self._opening: asyncio.Task[None] | None = None

    async def open(self) -> None:
        """Begin to load; returns at once."""
        sources = [
            ModelSource(
                name=model.name,
                path=model.facts.path,
                weights_bytes=model.facts.weights_bytes,
                trust_remote_code=model.trust_remote_code,
            )
            for model in self._models
        ]
        await self._engine.start(sources)
        self._opening = asyncio.create_task(self._create_adapters(), name="adapters")

    async def wait_ready(self) -> None:
        """Wait until every model can be asked. Raises the ModelError of the one that cannot be used."""
        assert self._opening is not None, "open() comes first"
        await self._opening
        if self._failure is not None:
            raise self._failure
        await self._engine.wait_ready()
        for name, adapter in self._adapters.items():
            self._check_vocabulary(name, adapter)

    async def close(self, *, drain_seconds: float) -> None:
        """Refuse new requests, let the open ones finish for a while, cancel the rest, end the engine."""
        if self._opening is not None:
            self._opening.cancel()
        await self._engine.stop(drain_seconds=drain_seconds)

    @property
    def status(self) -> EngineStatus:
        """How the engine is; "ready" only once requests can be prepared, too."""
        if self._failure is not None:
            return "failed"
        if self._engine.status == "ready" and len(self._adapters) < len(self._models):
            return "starting"
        return self._engine.status

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

    def requests(self) -> list[RequestView]:
        """How the open requests are, and how the last ones went."""
        return self._log.views()

    def served_models(self) -> tuple[ServedModel, ...]:
        """The models that requests can name, once they can be prepared."""
        return tuple(
            ServedModel(
                name=model.name,
                facts=model.facts,
                created=self._created,
                supports_tools=self._adapters[model.name].supports_tools,
                supports_thinking=self._adapters[model.name].supports_thinking,
                is_demo=model.is_demo,
                verdicts=model.verdicts,
            )
            for model in self._models
            if model.name in self._adapters
        )

    async def start(self, request: GenerationRequest) -> Generation:
        """Submit a request for one answer. Raises RequestError or CapacityError before anything was generated."""
        answers = await self.start_all(request)
        assert len(answers.generations) == 1, "several answers are started together"
        return answers.generations[0]

    async def start_all(self, request: GenerationRequest) -> Answers:
        """Submit a request for any number of answers: all of them, or none, and then it raises what `start` does."""
        adapter = self._adapter(request.model)
        request = self._without_headers(request)
        prepared = await self._prepare(adapter, request)
        generations: list[Generation] = []
        try:
            for prompt in prepared:
                for index in range(request.num_choices):
                    # What was begun has to be known when one is refused.
                    generations.append(self._submit(adapter, request, choice_of(prompt, index)))  # noqa: PERF401
        except MlxctlError:
            for generation in generations:
                generation.cancel()
            raise
        num_prompt_tokens = sum(len(prompt.token_ids) for prompt in prepared)
        return Answers(generations, num_prompt_tokens=num_prompt_tokens, sampling=prepared[0].sampling)

    async def count_tokens(self, request: GenerationRequest) -> int:
        """Count the tokens of a conversation's prompt, which may be longer than the model takes. Raises RequestError."""
        adapter = self._adapter(request.model)
        request = self._without_headers(request)
        if _is_short(request):
            return adapter.count_prompt_tokens(request)
        return await asyncio.to_thread(adapter.count_prompt_tokens, request)

    async def look_up(self, request: GenerationRequest) -> LookedUpPrompt:
        """Say how long a conversation's prompt is, and how much of it is computed already. Raises what `start` does."""
        adapter = self._adapter(request.model)
        request = self._without_headers(request)
        render = partial(adapter.prompt_token_ids, request)
        token_ids = render() if _is_short(request) else await asyncio.to_thread(render)
        found = await self._engine.look_up(request.model, token_ids)
        return LookedUpPrompt(num_prompt_tokens=len(token_ids), num_cached_tokens=found.num_cached)

    def _submit(self, adapter: ModelAdapter, request: GenerationRequest, prepared: PreparedInput) -> Generation:
        processor = adapter.create_stream_processor(request, prepared)
        tokens = self._engine.submit(
            model=request.model,
            prompt_token_ids=list(prepared.token_ids),
            sampling=prepared.sampling,
            stop_token_ids=prepared.stop_token_ids,
            max_tokens=prepared.max_tokens,
            priority=request.priority,
            fairness_key=request.fairness_key,
            cache=request.cache,
        )
        num_prompt_tokens = len(prepared.token_ids)
        entry = self._log.begin(request.model, num_prompt_tokens=num_prompt_tokens)
        return Generation(
            tokens,
            processor,
            entry,
            num_prompt_tokens=num_prompt_tokens,
            on_complete=partial(adapter.remember_answer, prepared),
            echo=prepared.echo,
        )

    def _without_headers(self, request: GenerationRequest) -> GenerationRequest:
        return replace(request, messages=without_agent_headers(request.messages)) if self._strip_agent_headers else request

    def _adapter(self, name: str) -> ModelAdapter:
        names = tuple(model.name for model in self._models)
        if name not in names:
            raise UnknownModel(name, names)
        if name not in self._adapters:
            raise EngineRecovering("the model is still being loaded; try again in a moment", retry_after_seconds=2.0)
        return self._adapters[name]

    @staticmethod
    async def _prepare(adapter: ModelAdapter, request: GenerationRequest) -> list[PreparedInput]:
        """Return one input for each prompt; a conversation is one."""

        def prepare() -> list[PreparedInput]:
            if request.prompts:
                return [adapter.prepare_text(request, prompt) for prompt in request.prompts]
            return [_prepare_conversation(adapter, request)]

        return prepare() if _is_short(request) else await asyncio.to_thread(prepare)

    async def _create_adapters(self) -> None:
        try:
            for model in self._models:
                self._adapters[model.name] = await asyncio.to_thread(_create_adapter, model)
        except ModelError as error:
            self._failure = error

    def _check_vocabulary(self, name: str, adapter: ModelAdapter) -> None:
        # An id beyond the embedding reads garbage without an error, so the two have to agree before the first request.
        width = self._engine.loaded[name].vocabulary_size
        if adapter.vocabulary_size > width:
            path = adapter.facts.path
            message = f"model {str(path)!r}: the tokenizer knows {adapter.vocabulary_size} tokens, the weights only {width}"
            self._failure = BrokenModel(path, message)
            raise self._failure


def _create_adapter(model: ModelToServe) -> ModelAdapter:
    if not model.verdicts and not model.is_demo:
        hint = "what it can do is told from its files; to find out: mlxctl probe"
        _log.info("model %r was never probed: %s %s", model.name, hint, model.facts.path)
    return create_adapter(model.facts, name=model.name, capabilities=model.capabilities)


def _is_short(request: GenerationRequest) -> bool:
    """Whether the prompt is prepared in less time than a thread takes."""
    if request.tools:
        return False
    return sum(len(message.text) for message in request.messages) + sum(map(len, request.prompts)) < _INLINE_CHARACTERS


def _prepare_conversation(adapter: ModelAdapter, request: GenerationRequest) -> PreparedInput:
    try:
        return adapter.prepare_input(request)
    except ContextTooLong:
        if not request.drop_oldest:
            raise
        shorter = shortened(request, adapter.count_prompt_tokens, context_length=adapter.facts.context_length)
        if shorter is None:
            raise
    return adapter.prepare_input(shorter)
