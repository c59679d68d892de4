"""LM Studio's own chat, `/api/v1/chat`: conversations that the server stores between turns.

A stream is `chat.start`, the progress of the prompt, `reasoning.*` and `message.*`, then `chat.end` with the
whole answer.
"""

import secrets
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal, assert_never

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.ir import (
    Finished,
    GeneratedTokens,
    GenerationRequest,
    Message,
    Part,
    PromptProgress,
    SamplingOptions,
    StoredItem,
    StoredResponse,
    StreamEvent,
    TextDelta,
    TextPart,
    TextResult,
    ThinkingDelta,
    ThinkingPart,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.errors import InvalidRequest, MlxctlError
from mlxctl.ir.results import Collector
from mlxctl.protocols.compat.lm_studio.stats import IdleSeconds, idle_time
from mlxctl.protocols.decoding import decode_body
from mlxctl.protocols.encoder import AnswerStart, Reference, ReplyShape, StoredContext
from mlxctl.protocols.extension_fields import ExtensionFields, with_extensions
from mlxctl.protocols.media import image_from_data_url
from mlxctl.protocols.openai.errors import OpenAIErrorDetail, error_detail
from mlxctl.protocols.ranges import (
    AnswerTokenLimit,
    MaxTokens,
    MessageLimit,
    MinP,
    Name,
    RepetitionPenalty,
    Temperature,
    TopK,
    TopP,
    answer_token_limit,
    top_k_option,
)
from mlxctl.protocols.thinking_switches import thinking_options

Reasoning = Literal["off", "low", "medium", "high", "on"]
_SWITCHES: dict[Reasoning, bool | str] = {"off": False, "on": True}


class ChatText(Struct, tag_field="type", tag="text"):
    """A text of the user's message."""

    content: str


class ChatMessageText(ChatText, tag_field="type", tag="message"):
    """A text, by its other name."""


class ChatImage(Struct, tag_field="type", tag="image"):
    """An image as a data URL."""

    data_url: str


ChatInput = str | Annotated[list[ChatText | ChatMessageText | ChatImage], Meta(min_length=1), MessageLimit]


class LMStudioChatRequest(ExtensionFields, kw_only=True):
    """Body of a chat; only the new message of a conversation.

    `previous_response_id` continues a stored answer. A new `system_prompt` replaces that of the conversation.
    Without `store` false the answer is stored. `context_length` limits the conversation; `integrations` are
    refused.
    """

    model: Name
    input: ChatInput
    system_prompt: str | None = None
    previous_response_id: str | None = None
    store: bool | None = None
    stream: bool | None = None
    temperature: Temperature | None = None
    top_p: TopP | None = None
    top_k: TopK | None = None
    min_p: MinP | None = None
    repeat_penalty: RepetitionPenalty | None = None
    max_output_tokens: AnswerTokenLimit | None = None
    reasoning: Reasoning | None = None
    context_length: MaxTokens | None = None
    integrations: list[Any] | None = None
    ttl: IdleSeconds = None


class LMStudioTurn(Struct, kw_only=True):
    """A stored message; `thinking` is that of an answer."""

    role: Literal["system", "user", "assistant"]
    content: ChatInput
    thinking: str = ""


class LMStudioOutput(Struct):
    """The thinking or the text of an answer."""

    type: Literal["reasoning", "message"]
    content: str


class LMStudioChatStats(Struct, kw_only=True):
    """Token counts, and times in seconds."""

    input_tokens: int
    total_output_tokens: int
    reasoning_output_tokens: int
    tokens_per_second: float
    time_to_first_token_seconds: float


class LMStudioChatAnswer(Struct, kw_only=True):
    """An answer; `response_id` is there if it is stored."""

    model_instance_id: str
    output: list[LMStudioOutput]
    stats: LMStudioChatStats
    response_id: str | UnsetType = UNSET


class LMStudioChatEvent(Struct, kw_only=True, omit_defaults=True):
    """An event of a stream, named by its `type`."""

    type: str
    model_instance_id: str | None = None
    progress: float | None = None
    content: str | None = None
    error: OpenAIErrorDetail | None = None
    result: LMStudioChatAnswer | None = None


_DECODER = msgspec.json.Decoder(LMStudioChatRequest)
_TURN = msgspec.json.Decoder(LMStudioTurn)
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True, kw_only=True)
class NativeChatShape(ReplyShape):
    """The shape of an answer.

    `new_turns` are the messages of the request, to be stored if it `stores`.
    """

    stores: bool
    previous_id: str | None
    new_turns: tuple[LMStudioTurn, ...] = ()


def parse_native_chat(body: bytes) -> tuple[GenerationRequest | Reference, NativeChatShape]:
    """Parse a body, or return the answer that it continues. Raises InvalidRequest."""
    decoded = _decode(body)
    if decoded.previous_response_id is not None:
        reference = Reference(stream=bool(decoded.stream), previous_id=decoded.previous_response_id)
        return reference, _shape(decoded, ())
    return _parsed(decoded, ())


def parse_native_chat_with(body: bytes, stored: StoredContext) -> tuple[GenerationRequest, NativeChatShape]:
    """Parse a body that continues a stored conversation. Raises InvalidRequest."""
    decoded = _decode(body)
    if decoded.previous_response_id is not None and stored.conversation is None:
        message = "previous_response_id needs stored answers; send the first message of a chat"
        raise InvalidRequest(message, param="previous_response_id")
    return _parsed(decoded, [_TURN.decode(item.body) for item in stored.conversation or ()])


def _parsed(
    decoded: LMStudioChatRequest, earlier: Sequence[LMStudioTurn]
) -> tuple[GenerationRequest, NativeChatShape]:
    new = [LMStudioTurn(role="user", content=decoded.input)]
    if decoded.system_prompt:
        new.insert(0, LMStudioTurn(role="system", content=decoded.system_prompt))
    turns = [*earlier, *new]
    system = [turn for turn in turns if turn.role == "system"][-1:]
    others = [turn for turn in turns if turn.role != "system"]
    switch = _SWITCHES.get(decoded.reasoning, decoded.reasoning) if decoded.reasoning else None
    translated = GenerationRequest(
        model=decoded.model,
        messages=tuple(map(_message, (*system, *others))),
        sampling=SamplingOptions(
            temperature=decoded.temperature,
            top_p=decoded.top_p,
            top_k=top_k_option(decoded.top_k),
            min_p=decoded.min_p,
            repetition_penalty=decoded.repeat_penalty,
        ),
        thinking=thinking_options(switches=(switch,)),
        max_tokens=answer_token_limit(decoded.max_output_tokens, "max_output_tokens"),
        max_context_tokens=decoded.context_length,
        stream=bool(decoded.stream),
        keep_alive=idle_time(decoded.ttl),
    )
    request = with_extensions(translated, msgspec.structs.replace(decoded, ttl=None))
    return request, _shape(decoded, new)


def _shape(decoded: LMStudioChatRequest, new: Sequence[LMStudioTurn]) -> NativeChatShape:
    return NativeChatShape(
        model=decoded.model,
        stores=decoded.store is not False,
        previous_id=decoded.previous_response_id,
        new_turns=tuple(new),
    )


class NativeChatEncoder:
    """Writes one answer; after the end, `record` is the turn to store."""

    begins_with_usage = False

    def __init__(self, shape: NativeChatShape, *, response_id: str | None = None) -> None:
        self.record: StoredResponse | None = None
        self._shape = shape
        self._model = shape.model
        self._id = response_id or f"resp_{secrets.token_hex(24)}"
        self._collector = Collector()
        self._open: Literal["reasoning", "message"] | None = None
        self._started, self._first = time.perf_counter(), 0.0

    def start(self, start: AnswerStart) -> None:
        """Take the name of the model."""
        self._model = start.model

    def begin(self, prompt: Usage) -> bytes:  # noqa: ARG002 -- this protocol counts at the end
        """Return the start of the chat and of the prompt."""
        start = LMStudioChatEvent(type="chat.start", model_instance_id=self._model)
        return _event(start) + _event(LMStudioChatEvent(type="prompt_processing.start"))

    def on_event(self, event: StreamEvent, number: int = 0) -> bytes:  # noqa: ARG002 -- one answer only
        """Return the events for `event`."""
        self._collector.add(event)
        match event:
            case PromptProgress():
                share = event.num_processed / max(1, event.num_prompt_tokens)
                return _event(LMStudioChatEvent(type="prompt_processing.progress", progress=share))
            case ThinkingDelta():
                return self._delta("reasoning", event.text)
            case TextDelta():
                return self._delta("message", event.text)
            case Finished():
                return self._end_prompt() + self._close()
            case GeneratedTokens() | ToolCallStarted() | ToolArgumentsDelta() | ToolCallEnded():
                return b""
            case _:
                assert_never(event)

    def finish(self) -> bytes:
        """Return the end of the chat with the whole answer."""
        seconds = time.perf_counter() - self._first
        answer = self._answer(self._collector.result(), self._first - self._started, seconds)
        return _event(LMStudioChatEvent(type="chat.end", result=answer))

    def on_error(self, error: MlxctlError, *, request_id: str | None = None) -> bytes:  # noqa: ARG002 -- not in its shape
        """Return the error as the last event."""
        return self._close() + _event(LMStudioChatEvent(type="error", error=error_detail(error)))

    def ping(self) -> bytes:
        """Return a comment."""
        return b": ping\n\n"

    def whole(self, *results: TextResult) -> bytes:
        """Return the whole answer."""
        (result,) = results
        return _encode(self._answer(result, result.prefill_seconds, result.decode_seconds))

    def _end_prompt(self) -> bytes:
        """Return the event before the first piece of the answer."""
        if self._first:
            return b""
        self._first = time.perf_counter()
        return _event(LMStudioChatEvent(type="prompt_processing.end"))

    def _delta(self, kind: Literal["reasoning", "message"], text: str) -> bytes:
        if not text:
            return b""
        start = self._end_prompt()
        if self._open != kind:
            start += self._close() + _event(LMStudioChatEvent(type=f"{kind}.start"))
            self._open = kind
        return start + _event(LMStudioChatEvent(type=f"{kind}.delta", content=text))

    def _close(self) -> bytes:
        kind, self._open = self._open, None
        return b"" if kind is None else _event(LMStudioChatEvent(type=f"{kind}.end"))

    def _answer(self, result: TextResult, first: float, rest: float) -> LMStudioChatAnswer:
        self._keep(result)
        usage = result.usage
        stats = LMStudioChatStats(
            input_tokens=usage.num_prompt_tokens,
            total_output_tokens=usage.num_completion_tokens,
            reasoning_output_tokens=usage.num_thinking_tokens,
            tokens_per_second=usage.num_completion_tokens / rest if rest else 0.0,
            time_to_first_token_seconds=first,
        )
        return LMStudioChatAnswer(
            model_instance_id=self._model,
            output=list(_output(result)),
            stats=stats,
            response_id=self._id if self._shape.stores else UNSET,
        )

    def _keep(self, result: TextResult) -> None:
        if not self._shape.stores:
            return
        answer = LMStudioTurn(role="assistant", content=result.text, thinking=result.thinking)
        self.record = StoredResponse(
            id=self._id,
            previous_id=self._shape.previous_id,
            body=b"",
            input=tuple(
                StoredItem(id=f"{self._id}_{index}", body=_encode(turn))
                for index, turn in enumerate(self._shape.new_turns)
            ),
            output=(StoredItem(id=self._id, body=_encode(answer)),),
        )


def _decode(body: bytes) -> LMStudioChatRequest:
    decoded = decode_body(body, _DECODER)
    if decoded.integrations:
        message = "integrations are not supported; let the client call tools, over /v1/chat/completions"
        raise InvalidRequest(message, param="integrations", code="unsupported_parameter")
    return decoded


def _message(turn: LMStudioTurn) -> Message:
    parts: list[Part] = [ThinkingPart(text=turn.thinking)] if turn.thinking else []
    content = [ChatText(turn.content)] if isinstance(turn.content, str) else turn.content
    for index, part in enumerate(content):
        if isinstance(part, ChatImage):
            parts.append(image_from_data_url(part.data_url, f"input[{index}].data_url"))
        else:
            parts.append(TextPart(text=part.content))
    return Message(role=turn.role, parts=tuple(parts))


def _output(result: TextResult) -> Iterator[LMStudioOutput]:
    for part in result.message.parts:
        if isinstance(part, ThinkingPart):
            yield LMStudioOutput("reasoning", part.text)
        elif isinstance(part, TextPart):
            yield LMStudioOutput("message", part.text)


def _event(event: LMStudioChatEvent) -> bytes:
    return b"event: %b\ndata: %b\n\n" % (event.type.encode(), _encode(event))
