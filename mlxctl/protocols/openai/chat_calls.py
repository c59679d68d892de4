"""Tool calls of chat completions: functions and custom tools."""

from collections.abc import Collection

from mlxctl.ir import ToolArgumentsDelta, ToolCallEnded, ToolCallPart, ToolCallStarted
from mlxctl.protocols.openai.chat_answers import (
    ChatCall,
    ChatCallDelta,
    ChatCustomCall,
    ChatCustomDelta,
    ChatCustomToolCall,
    ChatFunctionCall,
    ChatFunctionDelta,
    ChatFunctionToolCall,
)
from mlxctl.protocols.openai.chat_schema import ChatMessageToolCall
from mlxctl.protocols.openai.freeform import FreeformInput


class ChatCalls:
    """The calls of one choice; `freeform` are the names of custom tools."""

    def __init__(self, freeform: Collection[str]) -> None:
        self._freeform = freeform
        self._input: FreeformInput | None = None

    def whole(self, call: ToolCallPart) -> ChatCall:
        """Return a whole call."""
        if call.name in self._freeform:
            custom = ChatCustomCall(name=call.name, input=FreeformInput.of(call.arguments))
            return ChatCustomToolCall(id=call.id, type="custom", custom=custom)
        function = ChatFunctionCall(name=call.name, arguments=call.arguments)
        return ChatFunctionToolCall(id=call.id, type="function", function=function)

    def replayed(self, call: ToolCallPart) -> ChatMessageToolCall:
        """Return a call as a message of the history holds it."""
        if call.name in self._freeform:
            custom = ChatCustomCall(name=call.name, input=FreeformInput.of(call.arguments))
            return ChatMessageToolCall(id=call.id, type="custom", custom=custom)
        return ChatMessageToolCall(
            id=call.id, type="function", function=ChatFunctionCall(name=call.name, arguments=call.arguments)
        )

    def delta(self, event: ToolCallStarted | ToolArgumentsDelta | ToolCallEnded) -> ChatCallDelta | None:
        """Return the next piece of a call.

        None where the protocol has none.
        """
        match event:
            case ToolCallStarted() if event.name in self._freeform:
                self._input = FreeformInput()
                custom = ChatCustomDelta(name=event.name, input="")
                return ChatCallDelta(index=event.index, id=event.id, type="custom", custom=custom)
            case ToolCallStarted():
                function = ChatFunctionDelta(name=event.name, arguments="")
                return ChatCallDelta(index=event.index, id=event.id, type="function", function=function)
            case ToolArgumentsDelta():
                if self._input is not None:
                    return _input_delta(event.index, self._input.feed(event.json))
                return ChatCallDelta(index=event.index, function=ChatFunctionDelta(arguments=event.json))
            case ToolCallEnded():
                rest = "" if self._input is None else self._input.finish()
                self._input = None
                return _input_delta(event.index, rest)


def _input_delta(index: int, text: str) -> ChatCallDelta | None:
    return ChatCallDelta(index=index, custom=ChatCustomDelta(input=text)) if text else None
