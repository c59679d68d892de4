"""What Anthropic's messages answer, as types: only for the description, as those of completions."""

from typing import Any, Literal

from msgspec import Struct

from mlxctl.server.openapi.errors import AnthropicError


class ThinkingTokens(Struct):
    """Tokens of the answer that were thinking."""

    thinking_tokens: int


class CacheCreation(Struct):
    """What is newly kept, by the time that it is kept for."""

    ephemeral_5m_input_tokens: int
    ephemeral_1h_input_tokens: int


class AnthropicUsage(Struct):
    """Tokens of a message; what the cache had is not part of `input_tokens`."""

    input_tokens: int
    cache_creation_input_tokens: int
    cache_creation: CacheCreation
    cache_read_input_tokens: int
    output_tokens: int
    output_tokens_details: ThinkingTokens


class TextBlock(Struct, tag_field="type", tag="text"):
    """A piece of the answer."""

    text: str


class ThinkingBlock(Struct, tag_field="type", tag="thinking"):
    """A piece of thinking, with what it has to be sent back with."""

    thinking: str
    signature: str


class ToolUseBlock(Struct, tag_field="type", tag="tool_use"):
    """A call of a tool."""

    id: str
    name: str
    input: dict[str, Any]


Block = TextBlock | ThinkingBlock | ToolUseBlock
StopReason = Literal["end_turn", "stop_sequence", "max_tokens", "tool_use"]


class AnthropicMessage(Struct):
    """What the model said, in blocks. It has no reason to stop yet when a stream begins."""

    id: str
    type: Literal["message"]
    role: Literal["assistant"]
    model: str
    content: list[Block]
    stop_reason: StopReason | None
    stop_sequence: str | None
    usage: AnthropicUsage


class MessageStart(Struct, tag_field="type", tag="message_start"):
    """The message without its content; it has the counts of the prompt."""

    message: AnthropicMessage


class Ping(Struct, tag_field="type", tag="ping"):
    """The stream lives."""


class BlockStart(Struct, tag_field="type", tag="content_block_start"):
    """A block begins."""

    index: int
    content_block: Block


class TextDelta(Struct, tag_field="type", tag="text_delta"):
    """More of a text."""

    text: str


class ThinkingDelta(Struct, tag_field="type", tag="thinking_delta"):
    """More thinking."""

    thinking: str


class SignatureDelta(Struct, tag_field="type", tag="signature_delta"):
    """What the thinking has to be sent back with."""

    signature: str


class InputDelta(Struct, tag_field="type", tag="input_json_delta"):
    """More of a call's arguments."""

    partial_json: str


class BlockDelta(Struct, tag_field="type", tag="content_block_delta"):
    """More of the open block."""

    index: int
    delta: TextDelta | ThinkingDelta | SignatureDelta | InputDelta


class BlockStop(Struct, tag_field="type", tag="content_block_stop"):
    """The block has ended."""

    index: int


class MessageEnding(Struct):
    """Why the message ends."""

    stop_reason: StopReason
    stop_sequence: str | None


class MessageDelta(Struct, tag_field="type", tag="message_delta"):
    """Why the message ends, and its final counts."""

    delta: MessageEnding
    usage: AnthropicUsage


class MessageStop(Struct, tag_field="type", tag="message_stop"):
    """The message has ended."""


MESSAGE_EVENTS = (
    MessageStart, Ping, BlockStart, BlockDelta, BlockStop, MessageDelta, MessageStop, AnthropicError,
)  # fmt: skip
"""Everything that a stream may say."""


class TokenCount(Struct):
    """How long a prompt is."""

    input_tokens: int
