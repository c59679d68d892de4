"""Writer of a response's events and output items."""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec

from mlxctl.ir import TextDelta, TokenLogprob, ToolCallPart, ToolCallStarted
from mlxctl.protocols.openai.freeform import FreeformInput
from mlxctl.protocols.openai.logprobs import token_logprobs
from mlxctl.protocols.openai.responses.answers import (
    CustomCallItem,
    ItemStatus,
    OutputItem,
    OutputTextPart,
    ReasoningTextPart,
    ResponseAnswer,
    SummaryTextPart,
)
from mlxctl.protocols.openai.responses.event_schema import (
    ArgumentsDeltaEvent,
    ArgumentsDoneEvent,
    DeltaEvent,
    InputDeltaEvent,
    InputDoneEvent,
    ItemEvent,
    PartEvent,
    ReasoningDeltaEvent,
    ReasoningDoneEvent,
    ResponseEvent,
    ResponseEventType,
    ResponseStreamEvent,
    SummaryDeltaEvent,
    SummaryDoneEvent,
    SummaryPartEvent,
    TextDeltaEvent,
    TextDoneEvent,
)
from mlxctl.protocols.openai.responses.output import OutputStyle, text_part

_encode = msgspec.json.Encoder().encode


class EventWriter:
    """Writes the events of one stream, with sequence numbers.

    One item is open at a time. `output` holds the ended items. Text that is cut off, by length or an error,
    ends as incomplete. A call that an error cuts off does not end: clients run a call as soon as it has
    ended. PERF: the start of a delta is encoded once per item; a delta costs one JSON string and one join.
    """

    def __init__(self, style: OutputStyle) -> None:
        self.output: list[OutputItem] = []
        self._style = style
        self._num_events = 0
        self._open_kind: Literal["message", "reasoning", "call"] | None = None
        self._is_ended = False
        self._pieces: list[str] = []
        self._logprobs: list[TokenLogprob] = []
        self._call: ToolCallStarted | None = None
        # Reads the input of a custom tool out of the open call's arguments.
        self._input: FreeformInput | None = None
        self._item_id = ""
        self._delta_head = b""
        self._delta_tail = b""

    def response(self, kind: ResponseEventType, response: ResponseAnswer) -> bytes:
        """Return the event of a stage of the response."""
        return self._write(ResponseEvent(type=kind, response=response, sequence_number=self._next_number()))

    def text(self, delta: TextDelta) -> bytes:
        """Return more text, ending another kind of item first."""
        if not delta.text:
            self._is_ended |= self._open_kind == "reasoning"
            return b""
        opened = b"" if self._is_open("message") else self.close() + self._start_message()
        self._pieces.append(delta.text)
        if delta.logprobs:
            self._logprobs += delta.logprobs
            return opened + self._write(self._text_delta(delta.text, delta.logprobs))
        return opened + self._delta(delta.text)

    def thinking(self, text: str) -> bytes:
        """Return more thinking, ending another kind of item first."""
        if not text:
            self._is_ended |= self._open_kind == "message"
            return b""
        opened = b"" if self._is_open("reasoning") else self.close() + self._start_reasoning()
        self._pieces.append(text)
        return opened + self._delta(text)

    def start_call(self, call: ToolCallStarted) -> bytes:
        """Return the start of a call, ending the open item first."""
        closed = self.close()
        self._open_kind, self._call = "call", call
        item = self._style.started_call(self._index, call.id, call.name)
        self._item_id = item.id
        added = self._added(item)
        if isinstance(item, CustomCallItem):
            self._input = FreeformInput()
            self._freeze(
                InputDeltaEvent(
                    type="response.custom_tool_call_input.delta",
                    **self._place(0),
                    delta="",
                )
            )
        else:
            self._input = None
            self._freeze(
                ArgumentsDeltaEvent(
                    type="response.function_call_arguments.delta",
                    **self._place(0),
                    delta="",
                )
            )
        return closed + added

    def arguments(self, json: str) -> bytes:
        """Return more of the open call's arguments or input."""
        self._pieces.append(json)
        text = json if self._input is None else self._input.feed(json)
        return self._delta(text) if text else b""

    def end_call(self) -> bytes:
        """Return the end of the open call."""
        assert self._call is not None, "a call ends after it started"
        call = ToolCallPart(id=self._call.id, name=self._call.name, arguments="".join(self._pieces))
        item = self._style.call(self._index, call)
        if isinstance(item, CustomCallItem):
            assert self._input is not None, "the reader starts with the call"
            rest = self._input.finish()
            last = self._delta(rest) if rest else b""
            done: InputDoneEvent | ArgumentsDoneEvent = InputDoneEvent(
                type="response.custom_tool_call_input.done",
                **self._place(),
                input=item.input,
            )
            return last + self._write(done) + self._done(item)
        done = ArgumentsDoneEvent(
            type="response.function_call_arguments.done",
            **self._place(),
            name=item.name,
            arguments=call.arguments,
        )
        return self._write(done) + self._done(item)

    def close(self, status: ItemStatus = "completed") -> bytes:
        """Return the end of the open text or thinking.

        B"" when none is open.
        """
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
        self._item_id = item.id
        added = self._added(item) + self._content_part("response.content_part.added", text_part("", ()))
        self._freeze(self._text_delta("", (), sequence_number=0))
        return added

    def _text_delta(
        self, text: str, logprobs: Sequence[TokenLogprob], *, sequence_number: int | None = None
    ) -> TextDeltaEvent:
        return TextDeltaEvent(
            type="response.output_text.delta",
            **self._place(sequence_number),
            content_index=0,
            delta=text,
            logprobs=token_logprobs(logprobs),
        )

    def _end_message(self, text: str, status: ItemStatus) -> bytes:
        part = text_part(text, self._logprobs)
        item = self._style.message(self._index, text, self._logprobs, status)
        done = TextDoneEvent(
            type="response.output_text.done",
            **self._place(),
            content_index=0,
            text=text,
            logprobs=part.logprobs,
        )
        return self._write(done) + self._content_part("response.content_part.done", part) + self._done(item)

    def _start_reasoning(self) -> bytes:
        self._open_kind = "reasoning"
        item = self._style.started_reasoning(self._index)
        self._item_id = item.id
        added = self._added(item)
        if self._style.writes_summary:
            self._freeze(
                SummaryDeltaEvent(
                    type="response.reasoning_summary_text.delta",
                    **self._place(0),
                    summary_index=0,
                    delta="",
                )
            )
            return added + self._summary_part("response.reasoning_summary_part.added", "")
        self._freeze(
            ReasoningDeltaEvent(
                type="response.reasoning_text.delta",
                **self._place(0),
                content_index=0,
                delta="",
            )
        )
        return added + self._content_part("response.content_part.added", ReasoningTextPart(""))

    def _end_reasoning(self, text: str, status: ItemStatus) -> bytes:
        item = self._style.reasoning(self._index, text, status)
        if self._style.writes_summary:
            summary = SummaryDoneEvent(
                type="response.reasoning_summary_text.done",
                **self._place(),
                summary_index=0,
                text=text,
            )
            part = self._write(summary) + self._summary_part("response.reasoning_summary_part.done", text)
            return part + self._done(item)
        done = ReasoningDoneEvent(
            type="response.reasoning_text.done",
            **self._place(),
            content_index=0,
            text=text,
        )
        part = self._write(done) + self._content_part("response.content_part.done", ReasoningTextPart(text))
        return part + self._done(item)

    def _content_part(
        self,
        kind: Literal["response.content_part.added", "response.content_part.done"],
        part: OutputTextPart | ReasoningTextPart,
    ) -> bytes:
        event = PartEvent(
            type=kind,
            **self._place(),
            content_index=0,
            part=part,
        )
        return self._write(event)

    def _summary_part(
        self,
        kind: Literal["response.reasoning_summary_part.added", "response.reasoning_summary_part.done"],
        text: str,
    ) -> bytes:
        event = SummaryPartEvent(
            type=kind,
            **self._place(),
            summary_index=0,
            part=SummaryTextPart(text),
        )
        return self._write(event)

    def _added(self, item: OutputItem) -> bytes:
        event = ItemEvent(
            type="response.output_item.added",
            output_index=self._index,
            item=item,
            sequence_number=self._next_number(),
        )
        return self._write(event)

    def _done(self, item: OutputItem) -> bytes:
        event = ItemEvent(
            type="response.output_item.done",
            output_index=self._index,
            item=item,
            sequence_number=self._next_number(),
        )
        self.output.append(item)
        self._open_kind, self._call, self._is_ended = None, None, False
        self._pieces.clear()
        self._logprobs.clear()
        return self._write(event)

    @staticmethod
    def _write(event: ResponseStreamEvent) -> bytes:
        """Return one server-sent event, named by the `type` of its data."""
        return b"event: %b\ndata: %b\n\n" % (event.type.encode(), _encode(event))

    def _freeze(self, empty: DeltaEvent) -> None:
        """Keep the bytes of a delta before and after its text.

        `empty` has no text and the sequence number 0.
        """
        # Inside a JSON string the quotes would be escaped, so the pattern occurs once.
        head, tail = self._write(empty).split(b'"delta":""')
        self._delta_head = head + b'"delta":'
        self._delta_tail = tail.removesuffix(b"0}\n\n") + b"%d}\n\n"

    def _delta(self, text: str) -> bytes:
        return self._delta_head + _encode(text) + self._delta_tail % self._next_number()

    def _place(self, sequence_number: int | None = None) -> dict[str, Any]:
        """Return the fields of every event within the open item."""
        number = self._next_number() if sequence_number is None else sequence_number
        return {"item_id": self._item_id, "output_index": self._index, "sequence_number": number}

    def _next_number(self) -> int:
        self._num_events += 1
        return self._num_events - 1
