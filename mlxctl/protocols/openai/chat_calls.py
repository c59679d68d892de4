"""Calls in the words of chat completions: of functions, whose arguments are JSON, and of tools that take any
text.
"""

from collections.abc import Collection

import msgspec

from mlxctl.ir import ToolArgumentsDelta, ToolCallEnded, ToolCallPart, ToolCallStarted
from mlxctl.protocols.openai.chat_schema import CustomCall, FunctionCall, ToolCall
from mlxctl.protocols.openai.freeform import FreeformInput

_encode = msgspec.json.Encoder().encode


class ChatCalls:
    """The calls of one answer.

    `freeform` are the names of tools that take any text; all others are functions.
    """

    def __init__(self, freeform: Collection[str]) -> None:
        self._freeform = freeform
        self._input: FreeformInput | None = None

    def whole(self, call: ToolCallPart) -> dict[str, object]:
        """Return the object of a call."""
        if call.name in self._freeform:
            custom = {"name": call.name, "input": FreeformInput.of(call.arguments)}
            return {"id": call.id, "type": "custom", "custom": custom}
        return {
            "id": call.id,
            "type": "function",
            "function": {"name": call.name, "arguments": call.arguments},
        }

    def replayed(self, call: ToolCallPart) -> ToolCall:
        """Return a call as a conversation that goes on holds it."""
        if call.name in self._freeform:
            custom = CustomCall(name=call.name, input=FreeformInput.of(call.arguments))
            return ToolCall(id=call.id, type="custom", custom=custom)
        return ToolCall(
            id=call.id, type="function", function=FunctionCall(name=call.name, arguments=call.arguments)
        )

    def delta(self, event: ToolCallStarted | ToolArgumentsDelta | ToolCallEnded) -> bytes:
        """Return what is new of a call; b"" for nothing, which the end of a function's call is."""
        match event:
            case ToolCallStarted() if event.name in self._freeform:
                self._input = FreeformInput()
                custom = {"name": event.name, "input": ""}
                return _encode({"index": event.index, "id": event.id, "type": "custom", "custom": custom})
            case ToolCallStarted():
                function = {"name": event.name, "arguments": ""}
                return _encode(
                    {"index": event.index, "id": event.id, "type": "function", "function": function}
                )
            case ToolArgumentsDelta():
                if self._input is not None:
                    return _input_delta(event.index, self._input.feed(event.json))
                return b'{"index":%d,"function":{"arguments":' % event.index + _encode(event.json) + b"}}"
            case ToolCallEnded():
                said = "" if self._input is None else self._input.finish()
                self._input = None
                return _input_delta(event.index, said)


def _input_delta(index: int, text: str) -> bytes:
    return _encode({"index": index, "custom": {"input": text}}) if text else b""
