"""Engine access to one loaded model, and its admission by memory.

Event-loop thread only.
"""

from collections.abc import AsyncGenerator, Callable, Sequence
from functools import partial
from typing import Any, Literal

from mlxctl.engine import (
    AudioWindow,
    EngineClient,
    LookedUp,
    ModelLoaded,
    Submit,
    TokenStream,
    TranscribedWindow,
)
from mlxctl.formats.adapters import PreparedInput, StreamProcessor
from mlxctl.formats.adapters.answer_reader import AnswerReader
from mlxctl.ir import FinishReason, GenerationRequest
from mlxctl.ir.errors import ContextOverBudget, EngineDied, describe_bytes
from mlxctl.ir.tokens import Salt, pack

MIN_OUTPUT_TOKENS = 256
"""Tokens of an answer for which every prompt needs memory."""


class ModelSession:
    """One loaded model: weights in the engine, and its answer reader.

    `name` is its own name, under which the engine has it. The model must stay loaded while this is used.
    Methods raise CapacityError and EngineError.
    """

    def __init__(self, engine: EngineClient, reader: AnswerReader, *, name: str) -> None:
        self.name = name
        self.reader = reader
        self._engine = engine

    def with_reader(self, reader: AnswerReader) -> "ModelSession":
        """Return a session of the same model whose answers another reader reads."""
        return ModelSession(self._engine, reader, name=self.name)

    @property
    def memory_limit_bytes(self) -> int:
        """Bytes that weights and caches may take together."""
        hello = self._engine.hello
        assert hello is not None, "a model is loaded after the engine has started"
        return hello.memory_limit_bytes

    @property
    def loaded(self) -> ModelLoaded:
        """Measurements that the engine made when it loaded the model."""
        return self._engine.loaded[self.name]

    def check_budget(self, request: GenerationRequest, prepared: PreparedInput) -> None:
        """Raise ContextOverBudget for a prompt that can never fit into memory."""
        check_budget(
            self.loaded,
            num_prompt_tokens=len(prepared.token_ids),
            max_tokens=prepared.max_tokens,
            sets_max_tokens=request.max_tokens is not None,
            memory_limit_bytes=self.memory_limit_bytes,
            admission=self._engine.admission,
        )

    def submit(
        self,
        request: GenerationRequest,
        prepared: PreparedInput,
        *,
        request_id: str = "",
        fairness_key: str = "",
    ) -> TokenStream:
        """Submit one prepared prompt of a request.

        Of the request, only its options are read.
        """
        eos_token_ids = frozenset() if request.ignore_eos else prepared.stop_token_ids
        command = partial(
            Submit,
            model=self.name,
            prompt_token_ids=pack(prepared.token_ids).tobytes(),
            sampling=prepared.sampling,
            stop_token_ids=sorted(eos_token_ids.union(request.stop_token_ids)),
            max_tokens=prepared.max_tokens,
            priority=request.priority or 0,
            request_id=request_id,
            cache_mode=request.cache.mode,
            cache_namespace=request.cache.prefix_namespace,
            lifetime=self._engine.lifetime(request.cache, prepared.num_long_ttl_tokens),
            guidance=prepared.guidance,
            images=list(prepared.images),
            scores_prompt=request.scores_prompt,
            adapters=request.adapters or (),
        )
        return self._engine.submit(command, fairness_key=fairness_key)

    async def complete(
        self, request: GenerationRequest, prepared: PreparedInput, *, on_tokens: Callable[[int], None]
    ) -> tuple[list[int], FinishReason]:
        """Submit one prompt and return all generated ids.

        `on_tokens` gets the number of each step's ids.
        """
        stream = self.submit(request, prepared)
        token_ids: list[int] = []
        try:
            while updates := await stream.next():
                for update in updates:
                    token_ids += update.token_ids
                    on_tokens(len(update.token_ids))
                    if update.finish_reason is not None:
                        return token_ids, update.finish_reason
        finally:
            stream.cancel()
        raise EngineDied("the engine ended during the answer")

    async def wait_ready(self) -> None:
        """Wait until the engine has the model, also after a restart.

        Raises ModelError, EngineDied.
        """
        await self._engine.wait_ready()

    def create_stream_processor(self, request: GenerationRequest, prepared: PreparedInput) -> StreamProcessor:
        """Create the reader of one answer's tokens."""
        return self.reader.create_stream_processor(request, prepared)

    async def embed(
        self,
        texts: Sequence[Sequence[int]],
        *,
        dimensions: int | None = None,
        request_id: str = "",
        on_tokens: Callable[[int], None] = lambda _: None,
    ) -> list[bytes]:
        """Return a packed float32 vector for each text.

        In the machine's byte order. `on_tokens` gets the number of tokens of texts as they are computed.
        """
        return await self._engine.embed(
            model=self.name, texts=texts, dimensions=dimensions, request_id=request_id, on_tokens=on_tokens
        )

    async def transcribe(self, window: AudioWindow, *, request_id: str = "") -> TranscribedWindow:
        """Transcribe one window of samples."""
        return await self._engine.transcribe(window, request_id=request_id)

    def stream_job(self, command: Callable[..., Any]) -> AsyncGenerator[Any, None]:
        """Yield the reports of a command of the engine.

        It gets its id. Closing the iterator stops the work.
        """
        return self._engine.stream_job(command)

    async def look_up(self, token_ids: Sequence[int], salts: Sequence[Salt]) -> LookedUp:
        """Return how much of a prompt the prefix cache has."""
        return await self._engine.look_up(self.name, token_ids, salts)


def check_budget(
    loaded: ModelLoaded,
    *,
    num_prompt_tokens: int,
    max_tokens: int,
    sets_max_tokens: bool,
    memory_limit_bytes: int,
    admission: Literal["strict", "prompt"],
) -> None:
    """Raise ContextOverBudget if the request's cache can never fit.

    The limit is the memory beside the model's weights. `max_tokens` counts where the client sets it and
    `admission` is strict; otherwise room for a short answer suffices. The messages have the wording by which
    clients of Anthropic's API recognize a conversation that is too long.
    """
    num_output = (
        max_tokens if sets_max_tokens and admission == "strict" else min(max_tokens, MIN_OUTPUT_TOKENS)
    )
    needed = loaded.conversation.needed_bytes(num_prompt_tokens + num_output)
    capacity = max(0, memory_limit_bytes - loaded.weights_bytes)
    if needed <= capacity:
        return
    ceiling = loaded.conversation.tokens_within(capacity)
    max_prompt = max(0, ceiling - min(num_output, MIN_OUTPUT_TOKENS))
    if num_prompt_tokens > max_prompt:
        words = f"prompt is too long: {num_prompt_tokens} tokens > {max_prompt} maximum"
        remedy = "shorten the prompt"
    else:
        words = (
            f"input length and `max_tokens` exceed context limit: {num_prompt_tokens} + {num_output} > "
            f"{ceiling}, decrease input length or `max_tokens` and try again"
        )
        remedy = "lower max_tokens"
    raise ContextOverBudget(
        f"{words}; the conversation needs {describe_bytes(needed)}, and {describe_bytes(capacity)} are left "
        f"of the memory limit of {describe_bytes(memory_limit_bytes)} "
        f"beside {describe_bytes(loaded.weights_bytes)} of weights: {remedy}, "
        "or start the server with a higher --memory-limit or fewer --kv-bits"
    )
