"""What messages answer: whole bodies and the events of a stream."""

from typing import Any, Literal

from msgspec import UNSET, Struct, UnsetType, field

from mlxctl.protocols.anthropic.context_management import ContextManagementReport
from mlxctl.protocols.anthropic.errors import AnthropicError


class ThinkingTokens(Struct):
    """Output tokens that were thinking."""

    thinking_tokens: int


class CacheCreation(Struct):
    """Newly cached tokens by their time to live."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class AnthropicUsage(Struct):
    """Token counts of a message.

    Tokens read from or written to the cache are not part of `input_tokens`. `service_tier` is null unless the
    request sets one; `dropped_messages` is there if `context_overflow` left messages out. Fields that are
    always null are required in Anthropic's schema.
    """

    input_tokens: int
    cache_creation_input_tokens: int
    cache_creation: CacheCreation
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens
    service_tier: Literal["standard"] | None = None
    server_tool_use: None = None
    inference_geo: None = None
    dropped_messages: int | UnsetType = UNSET


class TextBlock(Struct, tag_field="type", tag="text"):
    """Text of the message.

    There are never citations; some clients refuse null here.
    """

    text: str
    citations: list[Any] = field(default_factory=list)


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    """Thinking; clients send the signature back with it."""

    thinking: str
    signature: str


class DirectCaller(Struct, tag_field="type", tag="direct"):
    """The model itself made the call."""


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    """A tool call of the model."""

    id: str
    name: str
    input: dict[str, Any]
    caller: DirectCaller = field(default_factory=DirectCaller)


AnswerBlock = TextBlock | ThinkingBlock | ToolUseBlock
StopReason = Literal["end_turn", "stop_sequence", "max_tokens", "tool_use", "refusal"]


class AnthropicMessage(Struct):
    """Body of an answer to a Messages request.

    At the start of a stream it has neither content nor a stop reason. `context_management` is there if the
    request has it.
    """

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[AnswerBlock]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: AnthropicUsage
    context_management: ContextManagementReport | UnsetType = UNSET
    stop_details: None = None
    container: None = None


class MessageStart(Struct, tag_field="type", tag="message_start"):
    """The message without its content; its usage counts the prompt."""

    message: AnthropicMessage


class Ping(Struct, tag_field="type", tag="ping"):
    """A keep-alive event of a stream."""


class BlockStart(Struct, tag_field="type", tag="content_block_start"):
    """A content block starts in a stream."""

    index: int
    content_block: AnswerBlock


class TextBlockDelta(Struct, tag_field="type", tag="text_delta"):
    """The next piece of a text block."""

    text: str


class ThinkingBlockDelta(Struct, tag_field="type", tag="thinking_delta"):
    """The next piece of a thinking block."""

    thinking: str


class SignatureDelta(Struct, tag_field="type", tag="signature_delta"):
    """The signature of the thinking."""

    signature: str


class InputJsonDelta(Struct, tag_field="type", tag="input_json_delta"):
    """More of a call's arguments."""

    partial_json: str


class BlockDelta(Struct, tag_field="type", tag="content_block_delta"):
    """More of the open block."""

    index: int
    delta: TextBlockDelta | ThinkingBlockDelta | SignatureDelta | InputJsonDelta


class BlockStop(Struct, tag_field="type", tag="content_block_stop"):
    """The open block has ended."""

    index: int


class MessageEnd(Struct):
    """Why the message ends."""

    stop_reason: StopReason
    stop_sequence: str | None
    stop_details: None = None
    container: None = None


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    """The stop reason and the final counts."""

    delta: MessageEnd
    usage: AnthropicUsage
    context_management: ContextManagementReport | UnsetType = UNSET


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    """The message has ended."""


MessageEvent = MessageStart | Ping | BlockStart | BlockDelta | BlockStop | MessageDelta | MessageStop
MESSAGE_EVENTS = (
    MessageStart, Ping, BlockStart, BlockDelta, BlockStop, MessageDelta, MessageStop, AnthropicError,
)  # fmt: skip
"""Every event of a stream."""


class OriginalTokenCount(Struct):
    """The length of a prompt without its context edits."""

    original_input_tokens: int


class TokenCount(Struct):
    """The length of a prompt.

    `context_management` is there if the request has edits.
    """

    input_tokens: int
    context_management: OriginalTokenCount | UnsetType = UNSET
