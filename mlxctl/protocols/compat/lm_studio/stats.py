"""LM Studio's chat and text completions: OpenAI's shapes with statistics."""

import time
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl import __version__
from mlxctl.ir import (
    Finished,
    FinishReason,
    GenerationRequest,
    PromptProgress,
    StreamEvent,
    TextResult,
    Usage,
)
from mlxctl.protocols.extension_fields import TtlSeconds
from mlxctl.protocols.openai.chat import OpenAIChatFormatter
from mlxctl.protocols.openai.chat_answers import ChatChunk, ChatCompletion
from mlxctl.protocols.openai.chat_parsing import decode_chat
from mlxctl.protocols.openai.chat_schema import ChatRequest
from mlxctl.protocols.openai.completions import OpenAICompletionsFormatter
from mlxctl.protocols.openai.completions_parsing import decode_completion
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


class _WithStats:
    """Adds statistics to whole answers; `model_info` is set before the answer.

    `idle_seconds` is the request's `ttl`.
    """

    model_info: LMStudioModelInfo
    idle_seconds: float | None = None

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
        return b"," + _encode(LMStudioExtras(stats, self.model_info, runtime))[1:]

    def with_extras(self, answer: bytes, result: TextResult) -> bytes:
        """Return a JSON object with the statistics of a result."""
        extras = self.extras(result.reason, result.usage, result.prefill_seconds, result.decode_seconds)
        return answer.removesuffix(b"}") + extras


class LMStudioChatFormatter(OpenAIChatFormatter, _WithStats):
    """Formatter of one chat completion.

    In a stream, the chunk with the finish reason has the statistics.
    """

    def __init__(self, **more: Any) -> None:
        super().__init__(**more)
        self._started = time.perf_counter()
        self._first: float | None = None

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a request body. Raises InvalidRequest."""
        chat = decode_chat(body, _CHAT)
        self.idle_seconds, chat.ttl = chat.ttl, None
        return self.translate_chat(chat)

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:
        """Return the chunk for `event` of choice `number`; progress is a comment."""
        if self._first is None and not isinstance(event, PromptProgress):
            self._first = time.perf_counter()
        chunk = super().on_event(event, number)
        if not isinstance(event, Finished) or number:
            return chunk
        now = time.perf_counter()
        first = now if self._first is None else self._first
        extras = self.extras(event.reason, event.usage, first - self._started, now - first)
        return chunk.removesuffix(b"}\n\n") + extras + b"\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the chat.completion object with statistics."""
        return self.with_extras(super().whole(*results), results[0])


class LMStudioCompletionsFormatter(OpenAICompletionsFormatter, _WithStats):
    """Formatter of one completion; whole answers have statistics."""

    def parse(self, body: bytes) -> GenerationRequest:
        """Parse a request body. Raises InvalidRequest."""
        completion = decode_completion(body, _COMPLETION)
        self.idle_seconds, completion.ttl = completion.ttl, None
        return self.translate_completion(completion)

    def whole(self, *results: TextResult) -> bytes:
        """Return the text_completion object with statistics."""
        return self.with_extras(super().whole(*results), results[0])
