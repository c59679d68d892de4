"""The events of one response, numbered in a row, and its output items as they grow: one open at a time, each
with its end.
"""

from collections.abc import Mapping
from typing import Literal

import msgspec

from mlxctl.ir import TextDelta, TokenLogprob, ToolCallPart, ToolCallStarted
from mlxctl.protocols.openai.freeform import FreeformInput
from mlxctl.protocols.openai.logprobs import token_object
from mlxctl.protocols.openai.responses.output import (
    Item,
    OutputStyle,
    Status,
    summary_part,
    text_part,
    thinking_part,
)

_encode = msgspec.json.Encoder().encode


class EventWriter:
    """Writes the events of one stream.

    `output` are the items that have ended. A text that is cut off, by length or an error, ends as incomplete;
    a call that is cut off by an error does not end at all: clients act on a call as soon as it has ended.
    PERF: the head of a text's deltas is encoded once per item; a delta costs one JSON string and one join.
    """

    def __init__(self, style: OutputStyle) -> None:
        self.output: list[Item] = []
        self._style = style
        self._num_events = 0
        self._open_kind: Literal["message", "reasoning", "call"] | None = None
        self._is_ended = False
        self._pieces: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._call: ToolCallStarted | None = None
        # Reads the text out of the open call's arguments, where its tool takes a text.
        self._input: FreeformInput | None = None
        self._delta_head = b""
        self._delta_tail = b""

    def event(self, kind: str, fields: Mapping[str, object]) -> bytes:
        """Return one server-sent event with the next number; its name stands beside the type in its data."""
        data = _encode({"type": kind, **fields, "sequence_number": self._next_number()})
        return b"event: " + kind.encode() + b"\ndata: " + data + b"\n\n"

    def text(self, delta: TextDelta) -> bytes:
        """Return what says more of the answer, ending another kind of item first."""
        if not delta.text:
            self._is_ended |= self._open_kind == "reasoning"
            return b""
        opened = b"" if self._is_open("message") else self.close() + self._start_message()
        self._pieces.append(delta.text)
        if delta.logprobs:
            self._logprobs += delta.logprobs
            scores = [token_object(token) for token in delta.logprobs]
            fields = {**self._place("content_index"), "delta": delta.text, "logprobs": scores}
            return opened + self.event("response.output_text.delta", fields)
        return opened + self._delta(delta.text)

    def thinking(self, text: str) -> bytes:
        """Return what says more of the thinking, ending another kind of item first."""
        if not text:
            self._is_ended |= self._open_kind == "message"
            return b""
        opened = b"" if self._is_open("reasoning") else self.close() + self._start_reasoning()
        self._pieces.append(text)
        return opened + self._delta(text)

    def start_call(self, call: ToolCallStarted) -> bytes:
        """Return the start of a call, ending what is open."""
        closed = self.close()
        self._open_kind, self._call = "call", call
        item = self._style.started_call(self._index, call.id, call.name)
        self._input = FreeformInput() if item["type"] == "custom_tool_call" else None
        kind = (
            "response.function_call_arguments.delta"
            if self._input is None
            else "response.custom_tool_call_input.delta"
        )
        self._freeze_delta(kind, {"item_id": item["id"], "output_index": self._index})
        return closed + self._added(item)

    def arguments(self, json: str) -> bytes:
        """Return more of the open call's arguments, or of its input."""
        self._pieces.append(json)
        said = json if self._input is None else self._input.feed(json)
        return self._delta(said) if said else b""

    def end_call(self) -> bytes:
        """Return the end of the open call."""
        assert self._call is not None, "a call ends after it started"
        call = ToolCallPart(id=self._call.id, name=self._call.name, arguments="".join(self._pieces))
        item = self._style.call(self._index, call)
        place = {"item_id": item["id"], "output_index": self._index}
        if self._input is None:
            told = {**place, "name": item["name"], "arguments": call.arguments}
            return self.event("response.function_call_arguments.done", told) + self._done(item)
        rest = self._input.finish()
        last = self._delta(rest) if rest else b""
        return (
            last
            + self.event("response.custom_tool_call_input.done", {**place, "input": item["input"]})
            + self._done(item)
        )

    def close(self, status: Status = "completed") -> bytes:
        """Return the end of the open text or thinking; b"" when none is open."""
        text = "".join(self._pieces)
        if self._open_kind == "message":
            return self._end_message(text, status)
        if self._open_kind == "reasoning":
            return self._end_reasoning(text, status)
        return b""

    @property
    def _index(self) -> int:
        return len(self.output)

    def _is_open(self, kind: str) -> bool:
        return self._open_kind == kind and not self._is_ended

    def _start_message(self) -> bytes:
        self._open_kind = "message"
        item = self._style.started_message(self._index)
        added = self._added(item)
        place = self._place("content_index")
        self._freeze_delta("response.output_text.delta", place, tail={"logprobs": []})
        return added + self.event("response.content_part.added", {**place, "part": text_part("", ())})

    def _end_message(self, text: str, status: Status) -> bytes:
        place, part = self._place("content_index"), text_part(text, self._logprobs)
        item = self._style.message(self._index, text, self._logprobs, status)
        return (
            self.event("response.output_text.done", {**place, "text": text, "logprobs": part["logprobs"]})
            + self.event("response.content_part.done", {**place, "part": part})
            + self._done(item)
        )

    def _start_reasoning(self) -> bytes:
        self._open_kind = "reasoning"
        added = self._added(self._style.started_reasoning(self._index))
        if self._style.tells_summary:
            place = self._place("summary_index")
            self._freeze_delta("response.reasoning_summary_text.delta", place)
            return added + self.event(
                "response.reasoning_summary_part.added", {**place, "part": summary_part("")}
            )
        place = self._place("content_index")
        self._freeze_delta("response.reasoning_text.delta", place)
        return added + self.event("response.content_part.added", {**place, "part": thinking_part("")})

    def _end_reasoning(self, text: str, status: Status) -> bytes:
        item = self._style.reasoning(self._index, text, status)
        if self._style.tells_summary:
            place = self._place("summary_index")
            told = self.event("response.reasoning_summary_text.done", {**place, "text": text})
            return (
                told
                + self.event("response.reasoning_summary_part.done", {**place, "part": summary_part(text)})
                + self._done(item)
            )
        place = self._place("content_index")
        told = self.event("response.reasoning_text.done", {**place, "text": text})
        return (
            told
            + self.event("response.content_part.done", {**place, "part": thinking_part(text)})
            + self._done(item)
        )

    def _place(self, part_index: str) -> dict[str, object]:
        """Return where in the answer the open item's only part is."""
        prefix = "msg" if self._open_kind == "message" else "rs"
        return {
            "item_id": self._style.item_id(prefix, self._index),
            "output_index": self._index,
            part_index: 0,
        }

    def _added(self, item: Item) -> bytes:
        return self.event("response.output_item.added", {"output_index": self._index, "item": item})

    def _done(self, item: Item) -> bytes:
        told = self.event("response.output_item.done", {"output_index": self._index, "item": item})
        self.output.append(item)
        self._open_kind, self._call, self._is_ended = None, None, False
        self._pieces.clear()
        self._logprobs.clear()
        return told

    def _freeze_delta(
        self, kind: str, place: Mapping[str, object], tail: Mapping[str, object] | None = None
    ) -> None:
        self._delta_head = (
            f"event: {kind}\ndata: ".encode() + _encode({"type": kind, **place})[:-1] + b',"delta":'
        )
        self._delta_tail = (b"," + _encode(tail)[1:-1] if tail else b"") + b',"sequence_number":%d}\n\n'

    def _delta(self, text: str) -> bytes:
        return self._delta_head + _encode(text) + self._delta_tail % self._next_number()

    def _next_number(self) -> int:
        self._num_events += 1
        return self._num_events - 1
