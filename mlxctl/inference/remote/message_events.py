"""Conversion of the event stream of Anthropic's Messages API to events.

Pure: no HTTP, no time.
"""

from typing import Annotated

import msgspec

from mlxctl.inference.remote.server_answers import UNREADABLE
from mlxctl.ir import (
    Finished,
    FinishReason,
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    Usage,
)
from mlxctl.ir.errors import ConnectionLost, SequenceFailed, shortened
from mlxctl.terminal_text import escape_line

_REASONS: dict[str, FinishReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "stop_sequence": "stop_sequence",
    "tool_use": "tool_calls",
    "refusal": "refusal",
}
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


class _Details(msgspec.Struct, frozen=True):
    thinking_tokens: _Count | None = None


class _Usage(msgspec.Struct, frozen=True):
    input_tokens: _Count | None = None
    cache_read_input_tokens: _Count | None = None
    cache_creation_input_tokens: _Count | None = None
    output_tokens: _Count | None = None
    output_tokens_details: _Details | None = None


class _Block(msgspec.Struct, frozen=True):
    type: str = ""
    id: str = ""
    name: str = ""
    text: str = ""
    thinking: str = ""


class _Delta(msgspec.Struct, frozen=True):
    type: str = ""
    text: str = ""
    thinking: str = ""
    partial_json: str = ""
    stop_reason: str | None = None
    stop_sequence: str | None = None


class _Message(msgspec.Struct, frozen=True):
    usage: _Usage | None = None


class _Error(msgspec.Struct, frozen=True):
    message: str = "the server gave no reason"


class _Event(msgspec.Struct, frozen=True):
    type: str
    message: _Message | None = None
    content_block: _Block = _Block()
    delta: _Delta = _Delta()
    usage: _Usage | None = None
    error: _Error | None = None


class MessageReader:
    """Parser of one stream; `message_stop` ends it.

    Blocks of unknown types are skipped.
    """

    def __init__(self) -> None:
        self.is_over = False
        self.usage = Usage(num_prompt_tokens=0)
        self._decoder = msgspec.json.Decoder(_Event)
        self._num_calls = 0
        self._has_open_call = self._has_arguments = False
        self._end: _Delta | None = None

    def comment(self, text: bytes) -> list[StreamEvent]:  # noqa: ARG002
        """Return nothing: comments only keep the connection open."""
        return []

    def data(self, body: bytes) -> list[StreamEvent]:
        """Return the events of one event. Raises SequenceFailed, ConnectionLost."""
        try:
            event = self._decoder.decode(body)
        except UNREADABLE as error:
            raise ConnectionLost(f"the server sent an event that cannot be read: {error}") from None
        match event.type:
            case "error":
                raise SequenceFailed(escape_line(shortened((event.error or _Error()).message)))
            case "message_start":
                self._count(event.message.usage if event.message else None)
            case "content_block_start":
                return self._start(event.content_block)
            case "content_block_delta":
                return self._delta(event.delta)
            case "content_block_stop":
                return self._end_call()
            case "message_delta":
                self._count(event.usage)
                self._end = event.delta if event.delta.stop_reason else self._end
            case "message_stop":
                self.is_over = True
        return []

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises ConnectionLost if there was no stop_reason."""
        if self._end is None:
            raise ConnectionLost("the connection ended during the answer")
        reason = _REASONS.get(self._end.stop_reason or "", "stop")
        finished = Finished(reason=reason, usage=self.usage, stop_sequence=self._end.stop_sequence)
        return [*self._end_call(), finished]

    def _start(self, block: _Block) -> list[StreamEvent]:
        events = self._end_call()
        match block.type:
            case "tool_use":
                self._has_open_call = True
                events.append(ToolCallStarted(index=self._num_calls, id=block.id, name=block.name))
            case "text" if block.text:
                events.append(TextDelta(text=block.text))
            case "thinking" if block.thinking:
                events.append(ThinkingDelta(text=block.thinking))
        return events

    def _delta(self, delta: _Delta) -> list[StreamEvent]:
        match delta.type:
            case "text_delta" if delta.text:
                return [TextDelta(text=delta.text)]
            case "thinking_delta" if delta.thinking:
                return [ThinkingDelta(text=delta.thinking)]
            case "input_json_delta" if delta.partial_json and self._has_open_call:
                self._has_arguments = True
                return [ToolArgumentsDelta(index=self._num_calls, json=delta.partial_json)]
        return []

    def _end_call(self) -> list[StreamEvent]:
        if not self._has_open_call:
            return []
        index, has_arguments = self._num_calls, self._has_arguments
        self._num_calls, self._has_open_call, self._has_arguments = index + 1, False, False
        # The arguments of a call without any are sent as no text at all.
        empty = [] if has_arguments else [ToolArgumentsDelta(index=index, json="{}")]
        return [*empty, ToolCallEnded(index=index)]

    def _count(self, usage: _Usage | None) -> None:
        """Take the counts of an event; those that it leaves out stay."""
        if usage is None:
            return
        before, details = self.usage, usage.output_tokens_details
        cached, stored = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
        has_prompt = usage.input_tokens is not None
        self.usage = Usage(
            num_prompt_tokens=(usage.input_tokens or 0) + cached + stored
            if has_prompt
            else before.num_prompt_tokens,
            num_cached_tokens=cached if has_prompt else before.num_cached_tokens,
            num_stored_tokens=stored if has_prompt else before.num_stored_tokens,
            num_completion_tokens=before.num_completion_tokens
            if usage.output_tokens is None
            else usage.output_tokens,
            num_thinking_tokens=(details and details.thinking_tokens) or before.num_thinking_tokens,
        )
