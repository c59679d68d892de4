"""Conversion of a chat completion stream to events.

Pure: no HTTP, no time. Reads `choices[].delta` as OpenAI documents it, `reasoning_content` (or `reasoning`)
as servers of open models add it, an `error` object in mid-stream, and mlxctl's own comment `prefill 12/345`.
"""

import re
import secrets
from dataclasses import dataclass
from typing import Annotated

import msgspec

from mlxctl.inference.remote.server_answers import UNREADABLE
from mlxctl.ir import (
    Finished,
    FinishReason,
    PromptProgress,
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
    "stop": "stop",
    "length": "length",
    "tool_calls": "tool_calls",
    "content_filter": "refusal",
    "function_call": "tool_calls",
}
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]
_PREFILL = re.compile(rb"\s*prefill (\d{1,15})/(\d{1,15})\s*")


class _Function(msgspec.Struct, frozen=True):
    name: str | None = None
    arguments: str | None = None


class _Call(msgspec.Struct, frozen=True):
    index: int | None = None
    id: str | None = None
    function: _Function = _Function()


class _Delta(msgspec.Struct, frozen=True):
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None
    tool_calls: list[_Call] | None = None


class _Choice(msgspec.Struct, frozen=True):
    delta: _Delta = _Delta()
    finish_reason: str | None = None


class _Details(msgspec.Struct, frozen=True):
    cached_tokens: _Count | None = None
    reasoning_tokens: _Count | None = None


class _Usage(msgspec.Struct, frozen=True):
    prompt_tokens: _Count = 0
    completion_tokens: _Count = 0
    dropped_messages: _Count = 0
    prompt_tokens_details: _Details | None = None
    completion_tokens_details: _Details | None = None


class _ChunkError(msgspec.Struct, frozen=True):
    message: str = "the server gave no reason"


class _Chunk(msgspec.Struct, frozen=True):
    choices: list[_Choice] = []
    usage: _Usage | None = None
    error: _ChunkError | str | None = None


@dataclass(slots=True)
class _OpenCall:
    number: int
    index: int


class ChunkReader:
    """Parser of one stream: SSE lines, then `finish`.

    Missing usage counts as zeros. `[DONE]` ends the stream, which is no event: `is_over` stays false.
    """

    is_over = False

    def __init__(self) -> None:
        self._decoder = msgspec.json.Decoder(_Chunk)
        self._call: _OpenCall | None = None
        self._num_calls = 0
        self._reason: str | None = None
        self.usage = Usage(num_prompt_tokens=0)

    def comment(self, text: bytes) -> list[StreamEvent]:
        """Return the prefill progress of an SSE comment, if any."""
        match = _PREFILL.fullmatch(text)
        if match is None:
            return []
        return [PromptProgress(num_processed=int(match[1]), num_cached=0, num_prompt_tokens=int(match[2]))]

    def data(self, body: bytes) -> list[StreamEvent]:
        """Return the events of one chunk.

        Raises SequenceFailed for an error object, ConnectionLost.
        """
        try:
            chunk = self._decoder.decode(body)
        except UNREADABLE as error:
            raise ConnectionLost(f"the server sent a chunk that cannot be read: {error}") from None
        if chunk.error is not None:
            reason = chunk.error if isinstance(chunk.error, str) else chunk.error.message
            raise SequenceFailed(escape_line(shortened(reason)))
        if chunk.usage is not None:
            self.usage = _read_usage(chunk.usage)
        events: list[StreamEvent] = []
        for choice in chunk.choices[:1]:
            events += self._delta(choice.delta)
            self._reason = choice.finish_reason or self._reason
        return events

    def finish(self) -> list[StreamEvent]:
        """Return the last events. Raises ConnectionLost if there was no finish_reason."""
        if self._reason is None:
            raise ConnectionLost("the connection ended during the answer")
        # An unknown finish_reason counts as "stop".
        reason = _REASONS.get(self._reason, "stop")
        return [*self._end_call(), Finished(reason=reason, usage=self.usage)]

    def _delta(self, delta: _Delta) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if thinking := delta.reasoning_content or delta.reasoning:
            events += [*self._end_call(), ThinkingDelta(text=thinking)]
        if delta.content:
            events += [*self._end_call(), TextDelta(text=delta.content)]
        for call in delta.tool_calls or ():
            events += self._call_delta(call)
        return events

    def _call_delta(self, call: _Call) -> list[StreamEvent]:
        events: list[StreamEvent] = []
        if self._call is None or self._is_another(call, self._call):
            events += self._end_call()
            self._call = _OpenCall(
                number=self._num_calls, index=self._num_calls if call.index is None else call.index
            )
            self._num_calls += 1
            call_id = call.id or f"call_{secrets.token_hex(12)}"
            events.append(ToolCallStarted(index=self._call.number, id=call_id, name=call.function.name or ""))
        if call.function.arguments:
            events.append(ToolArgumentsDelta(index=self._call.number, json=call.function.arguments))
        return events

    @staticmethod
    def _is_another(call: _Call, current: _OpenCall) -> bool:
        # Some servers send every call whole and without an index.
        return call.function.name not in (None, "") if call.index is None else call.index != current.index

    def _end_call(self) -> list[StreamEvent]:
        if self._call is None:
            return []
        ended, self._call = self._call, None
        return [ToolCallEnded(index=ended.number)]


def _read_usage(usage: _Usage) -> Usage:
    prompt, completion = usage.prompt_tokens_details, usage.completion_tokens_details
    return Usage(
        num_prompt_tokens=usage.prompt_tokens,
        num_cached_tokens=(prompt.cached_tokens or 0) if prompt else 0,
        num_completion_tokens=usage.completion_tokens,
        num_thinking_tokens=(completion.reasoning_tokens or 0) if completion else 0,
        num_dropped_messages=usage.dropped_messages,
    )
