"""LM Studio's chat and text completions: OpenAI's shapes with statistics."""

import time
from dataclasses import replace
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl import __version__
from mlxctl.ir import (
    Finished,
    FinishReason,
    GenerationRequest,
    KeepAlive,
    PromptProgress,
    StreamEvent,
    TextResult,
    Usage,
)
from mlxctl.protocols.encoder import AnswerStart
from mlxctl.protocols.extension_fields import TtlSeconds
from mlxctl.protocols.openai.chat import ChatEncoder, ChatShape
from mlxctl.protocols.openai.chat_answers import ChatChunk, ChatCompletion
from mlxctl.protocols.openai.chat_parsing import decode_chat
from mlxctl.protocols.openai.chat_parsing import to_generation_request as chat_request
from mlxctl.protocols.openai.chat_schema import ChatRequest
from mlxctl.protocols.openai.completions import CompletionEncoder, CompletionShape
from mlxctl.protocols.openai.completions_parsing import decode_completion
from mlxctl.protocols.openai.completions_parsing import to_generation_request as completion_request
from mlxctl.protocols.openai.completions_schema import CompletionRequest, TextCompletion

StopReason = Literal["eosFound", "stopStringFound", "maxPredictedTokensReached", "toolCalls"]
_STOP_REASONS: dict[FinishReason, StopReason] = {
    "stop": "eosFound",
    "stop_sequence": "stopStringFound",
    "length": "maxPredictedTokensReached",
    "tool_calls": "toolCalls",
    "refusal": "eosFound",
}
_encode = msgspec.json.Encoder().encode

IdleSeconds = Annotated[
    TtlSeconds | None,
    Meta(
        description="As in LM Studio, the idle seconds after which a model is unloaded that this request "
        "loads. It needs the scope `models:write`; the cache has `cache_mode` only."
    ),
]


class LMStudioChatFields(ChatRequest, kw_only=True):
    """Body of a chat completion with LM Studio's `ttl`."""

    ttl: IdleSeconds = None


class LMStudioCompletionFields(CompletionRequest, kw_only=True):
    """Body of a completion with LM Studio's `ttl`."""

    ttl: IdleSeconds = None


_CHAT = msgspec.json.Decoder(LMStudioChatFields)
_COMPLETION = msgspec.json.Decoder(LMStudioCompletionFields)


class AnswerStats(Struct):
    """Times of the first choice in seconds."""

    tokens_per_second: float
    time_to_first_token: float
    generation_time: float
    stop_reason: StopReason


class LMStudioModelInfo(Struct):
    """The model that answered."""

    arch: str
    quant: str | None
    format: Literal["mlx"]
    context_length: int


class LMStudioRuntime(Struct):
    """Name and version of the server."""

    name: str
    version: str
    supported_formats: list[str]


class LMStudioExtras(Struct):
    """Fields that LM Studio adds to OpenAI's."""

    stats: AnswerStats
    model_info: LMStudioModelInfo
    runtime: LMStudioRuntime


class LMStudioChatCompletion(ChatCompletion, kw_only=True):
    """Body of an answer to a chat request."""

    stats: AnswerStats
    model_info: LMStudioModelInfo
    runtime: LMStudioRuntime


class LMStudioTextCompletion(TextCompletion, kw_only=True):
    """Body of an answer to a completion request."""

    stats: AnswerStats
    model_info: LMStudioModelInfo
    runtime: LMStudioRuntime


class LMStudioChatChunk(ChatChunk, kw_only=True):
    """Chunk of a chat stream.

    The one with the finish reason has the statistics.
    """

    stats: AnswerStats | UnsetType = UNSET
    model_info: LMStudioModelInfo | UnsetType = UNSET
    runtime: LMStudioRuntime | UnsetType = UNSET


class _Stats:
    """Writes the statistics of an answer and the model that gave it."""

    def __init__(self) -> None:
        self._model_info = LMStudioModelInfo("", None, "mlx", 0)

    def start(self, start: AnswerStart) -> None:
        """Take the description of the model."""
        described = start.described
        self._model_info = LMStudioModelInfo(
            described.architecture, described.quantization, "mlx", described.context_length
        )

    def extras(self, reason: FinishReason, usage: Usage, first: float, rest: float) -> bytes:
        """Return the fields as the end of a JSON object.

        Times are in seconds.
        """
        stats = AnswerStats(
            tokens_per_second=usage.num_completion_tokens / rest if rest else 0.0,
            time_to_first_token=first,
            generation_time=rest,
            stop_reason=_STOP_REASONS[reason],
        )
        runtime = LMStudioRuntime("mlxctl", __version__, ["mlx"])
        return b"," + _encode(LMStudioExtras(stats, self._model_info, runtime))[1:]

    def with_extras(self, answer: bytes, result: TextResult) -> bytes:
        """Return a JSON object with the statistics of a result."""
        extras = self.extras(result.reason, result.usage, result.prefill_seconds, result.decode_seconds)
        return answer.removesuffix(b"}") + extras


def parse_chat(body: bytes) -> tuple[GenerationRequest, ChatShape]:
    """Parse a body of a chat completion. Raises InvalidRequest."""
    chat = decode_chat(body, _CHAT)
    idle_seconds, chat.ttl = chat.ttl, None
    request = chat_request(chat)
    return replace(request, keep_alive=idle_time(idle_seconds)), ChatShape.of(chat, request)


def parse_completion(body: bytes) -> tuple[GenerationRequest, CompletionShape]:
    """Parse a body of a completion. Raises InvalidRequest."""
    completion = decode_completion(body, _COMPLETION)
    idle_seconds, completion.ttl = completion.ttl, None
    request = completion_request(completion)
    return replace(request, keep_alive=idle_time(idle_seconds)), CompletionShape.of(completion, request)


def idle_time(seconds: float | None) -> KeepAlive | None:
    """Return the time to live that a request's `ttl` asks for."""
    return None if seconds is None else KeepAlive(seconds=seconds, new_only=True)


class LMStudioChatEncoder(ChatEncoder):
    """Writes one chat completion.

    In a stream, the chunk with the finish reason has the statistics.
    """

    def __init__(self, shape: ChatShape, **more: Any) -> None:
        super().__init__(shape, **more)
        self._stats = _Stats()
        self._started = time.perf_counter()
        self._first: float | None = None

    def start(self, start: AnswerStart) -> None:
        """Take the model, which the answer describes."""
        super().start(start)
        self._stats.start(start)

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event` of choice `number`; progress is a comment."""
        if self._first is None and not isinstance(event, PromptProgress):
            self._first = time.perf_counter()
        chunk = super().on_event(event, number)
        if not isinstance(event, Finished) or number:
            return chunk
        now = time.perf_counter()
        first = now if self._first is None else self._first
        extras = self._stats.extras(event.reason, event.usage, first - self._started, now - first)
        return chunk.removesuffix(b"}\n\n") + extras + b"\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the chat.completion object with statistics."""
        return self._stats.with_extras(super().whole(*results), results[0])


class LMStudioCompletionEncoder(CompletionEncoder):
    """Writes one completion; whole answers have statistics."""

    def __init__(self, shape: CompletionShape, **more: Any) -> None:
        super().__init__(shape, **more)
        self._stats = _Stats()

    def start(self, start: AnswerStart) -> None:
        """Take the model, which the answer describes."""
        super().start(start)
        self._stats.start(start)

    def whole(self, *results: TextResult) -> bytes:
        """Return the text_completion object with statistics."""
        return self._stats.with_extras(super().whole(*results), results[0])
