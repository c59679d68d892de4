"""Content blocks of a message, whole and in a stream."""

from typing import Any, Literal

import msgspec

from mlxctl.ir import Part, TextPart, TextResult, ThinkingPart, ToolCallPart
from mlxctl.protocols.anthropic.messages_answers import (
    AnswerBlock,
    BlockDelta,
    BlockStart,
    BlockStop,
    InputJsonDelta,
    MessageEvent,
    SignatureDelta,
    TextBlock,
    TextBlockDelta,
    ThinkingBlock,
    ThinkingBlockDelta,
    ToolUseBlock,
)
from mlxctl.protocols.thinking_signature import sign

_encode = msgspec.json.Encoder().encode
_DELTA_TAIL = b"}}\n\n"


def encode_event(event: MessageEvent) -> bytes:
    """Return one server-sent event, named by the `type` of its data."""
    return b"event: %b\ndata: %b\n\n" % (str(event.__struct_config__.tag).encode(), _encode(event))


def content_blocks(result: TextResult, *, omit_thinking: bool) -> list[AnswerBlock]:
    """Return the blocks of a whole message, in the order of generation."""
    return [_block(part, omit_thinking=omit_thinking) for part in result.message.parts]


def _block(part: Part, *, omit_thinking: bool) -> AnswerBlock:
    match part:
        case TextPart():
            return TextBlock(text=part.text)
        case ThinkingPart():
            signature = sign(part.text, carry=omit_thinking)
            return ThinkingBlock(thinking="" if omit_thinking else part.text, signature=signature)
        case ToolCallPart():
            return ToolUseBlock(id=part.id, name=part.name, input=_input_object(part.arguments))
        case _:
            raise AssertionError(f"an answer holds no {type(part).__name__}")


class BlockWriter:
    """Writes the blocks of a stream.

    One is open at a time; indexes count from 0; each has its stop. With `omit_thinking` a thinking block has
    no text, and its signature carries the thinking. PERF: the start of a block's deltas is encoded once per
    block; a text delta costs one JSON string and one join.
    """

    def __init__(self, *, omit_thinking: bool) -> None:
        self._omit_thinking = omit_thinking
        self._index = -1
        self._open_kind: Literal["text", "thinking", "tool_use"] | None = None
        self._delta_head = b""
        self._thinking_pieces: list[str] = []

    def text(self, text: str) -> bytes:
        """Return more text, closing another kind of block first."""
        if self._open_kind == "text":
            return self._delta(text) if text else b""
        closed = self.close()
        if not text:
            return closed
        return closed + self._start("text", TextBlock(text=""), TextBlockDelta(text="")) + self._delta(text)

    def thinking(self, text: str) -> bytes:
        """Return more thinking, closing another kind of block first."""
        started = b""
        if self._open_kind != "thinking":
            started = self.close()
            if text:
                empty = ThinkingBlock(thinking="", signature="")
                started += self._start("thinking", empty, ThinkingBlockDelta(thinking=""))
        self._thinking_pieces.append(text)
        return started if self._omit_thinking or not text else started + self._delta(text)

    def start_call(self, call_id: str, name: str) -> bytes:
        """Return the start of a call.

        Its first delta is empty, as Anthropic's.
        """
        call = ToolUseBlock(id=call_id, name=name, input={})
        return self.close() + self._start("tool_use", call, InputJsonDelta(partial_json="")) + self._delta("")

    def arguments(self, json: str) -> bytes:
        """Return more of the open call's arguments."""
        return self._delta(json) if json else b""

    def close(self) -> bytes:
        """Return the stop of the open block, b"" without one.

        A signature precedes it for thinking.
        """
        if self._open_kind is None:
            return b""
        signed = b""
        if self._open_kind == "thinking":
            signature = sign("".join(self._thinking_pieces), carry=self._omit_thinking)
            signed = encode_event(BlockDelta(self._index, SignatureDelta(signature)))
        self._open_kind = None
        self._thinking_pieces.clear()
        return signed + encode_event(BlockStop(self._index))

    def _start(
        self,
        kind: Literal["text", "thinking", "tool_use"],
        block: AnswerBlock,
        empty_delta: TextBlockDelta | ThinkingBlockDelta | InputJsonDelta,
    ) -> bytes:
        self._open_kind = kind
        self._index += 1
        self._delta_head = encode_event(BlockDelta(self._index, empty_delta)).removesuffix(
            b'""' + _DELTA_TAIL
        )
        return encode_event(BlockStart(self._index, block))

    def _delta(self, text: str) -> bytes:
        return self._delta_head + _encode(text) + _DELTA_TAIL


def _input_object(arguments: str) -> dict[str, Any]:
    """Return the arguments as an object, {} if they were cut off."""
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
