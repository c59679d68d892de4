"""Content blocks of an answer, whole and in a stream."""

from collections.abc import Mapping
from typing import Literal

import msgspec

from mlxctl.ir import Part, TextPart, TextResult, ThinkingPart, ToolCallPart
from mlxctl.protocols.thinking_signature import sign

_encode = msgspec.json.Encoder().encode


def named_event(kind: str, fields: Mapping[str, object]) -> bytes:
    """Return one server-sent event; clients need its name beside the type in its data."""
    return b"event: " + kind.encode() + b"\ndata: " + _encode({"type": kind, **fields}) + b"\n\n"


def content_blocks(result: TextResult, *, omit_thinking: bool) -> list[dict[str, object]]:
    """Return the blocks of a whole answer, in the order in which the model produced them."""
    return [_block(part, omit_thinking=omit_thinking) for part in result.message.parts]


def _block(part: Part, *, omit_thinking: bool) -> dict[str, object]:
    match part:
        case TextPart():
            return {"type": "text", "text": part.text}
        case ThinkingPart():
            signature = sign(part.text, carry=omit_thinking)
            return {
                "type": "thinking",
                "thinking": "" if omit_thinking else part.text,
                "signature": signature,
            }
        case ToolCallPart():
            return {
                "type": "tool_use",
                "id": part.id,
                "name": part.name,
                "input": _input_object(part.arguments),
            }
        case _:
            raise AssertionError(f"an answer holds no {type(part).__name__}")


class BlockWriter:
    """Writes the blocks of one stream: one open at a time, indexes from 0, each with its stop.

    With `omit_thinking` a thinking block has no text and a signature that carries it. PERF: the head of a
    block's deltas is encoded once per block; a text delta costs one JSON string and one join.
    """

    def __init__(self, *, omit_thinking: bool) -> None:
        self._omit_thinking = omit_thinking
        self._index = -1
        self._open_kind: Literal["text", "thinking", "tool_use"] | None = None
        self._delta_head = b""
        self._thought: list[str] = []

    def text(self, text: str) -> bytes:
        """Return what says more of the answer, closing another kind of block first."""
        if self._open_kind == "text":
            return self._delta(text) if text else b""
        closed = self.close()
        if not text:
            return closed
        return (
            closed
            + self._start("text", {"type": "text", "text": ""}, delta='"text_delta","text"')
            + self._delta(text)
        )

    def thinking(self, text: str) -> bytes:
        """Return what says more of the thinking, closing another kind of block first."""
        started = b""
        if self._open_kind != "thinking":
            started = self.close()
            if text:
                empty = {"type": "thinking", "thinking": "", "signature": ""}
                started += self._start("thinking", empty, delta='"thinking_delta","thinking"')
        self._thought.append(text)
        return started if self._omit_thinking or not text else started + self._delta(text)

    def start_call(self, call_id: str, name: str) -> bytes:
        """Return the start of a call, with the empty first piece of arguments that the real API sends too."""
        call = {"type": "tool_use", "id": call_id, "name": name, "input": {}}
        return (
            self.close()
            + self._start("tool_use", call, delta='"input_json_delta","partial_json"')
            + self._delta("")
        )

    def arguments(self, json: str) -> bytes:
        """Return more of the open call's arguments."""
        return self._delta(json) if json else b""

    def close(self) -> bytes:
        """Return the stop of the open block, its signature first when it is thinking; b"" when none is open."""
        if self._open_kind is None:
            return b""
        signed = b""
        if self._open_kind == "thinking":
            signature = sign("".join(self._thought), carry=self._omit_thinking)
            delta = {"type": "signature_delta", "signature": signature}
            signed = named_event("content_block_delta", {"index": self._index, "delta": delta})
        self._open_kind = None
        self._thought.clear()
        return signed + named_event("content_block_stop", {"index": self._index})

    def _start(
        self, kind: Literal["text", "thinking", "tool_use"], block: Mapping[str, object], *, delta: str
    ) -> bytes:
        self._open_kind = kind
        self._index += 1
        data = f'{{"type":"content_block_delta","index":{self._index},"delta":{{"type":{delta}:'
        self._delta_head = f"event: content_block_delta\ndata: {data}".encode()
        return named_event("content_block_start", {"index": self._index, "content_block": block})

    def _delta(self, text: str) -> bytes:
        return self._delta_head + _encode(text) + b"}}\n\n"


def _input_object(arguments: str) -> object:
    """Return the arguments as an object; a call that was cut off before its JSON was complete has none to
    give.
    """
    try:
        value = msgspec.json.decode(arguments)
    except (msgspec.DecodeError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}
