"""Parses thinking, and the possible calls inside a thought.

A call in a thought counts if the thought is never closed, which is known at the answer's end.
"""

from collections.abc import Collection, Sequence
from typing import Literal

from mlxctl.formats.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyReader,
    BodyRejected,
    CallStarted,
    Opening,
    Signal,
    ThinkingParser,
    ToolParser,
)
from mlxctl.formats.parsers.machine.answer_events import AnswerEvents
from mlxctl.formats.parsers.machine.text_buffer import TextBuffer
from mlxctl.formats.parsers.markers import MarkerSet, is_control_token
from mlxctl.formats.parsers.schemas import ToolSchemas

Decision = Literal["undecided", "quoted", "no call"]


class ThoughtCall:
    """Follows a thought from a call's marker on, without consuming it.

    `marker_end` is where the marker ends in the buffer, which only grows meanwhile; `closer_at` and
    `closer_length` are where the thought is closed, once the decision is "quoted". With `is_token` the marker
    is a control token: it ends a thought that is never closed even if no call follows, so it is held until
    then.
    """

    def __init__(
        self,
        body: BodyReader,
        tools: ToolSchemas,
        parser: ToolParser,
        *,
        closers: Collection[str],
        marker_end: int,
        is_token: bool,
    ) -> None:
        self.marker_end = marker_end
        self._is_token = is_token
        self.closer_at = -1
        self.closer_length = 0
        self._body = body
        self._tools = tools
        self._closers = MarkerSet(closers)
        self._call_openers, self._call_closers = parser.openers, parser.closers
        self._searched = marker_end
        self._read_to = marker_end
        self._is_over = False
        self._has_known_call = False
        self._has_call = False

    def read(self, buffer: str) -> Decision:
        """Read more of the buffer.

        "quoted" when the thought is closed, "no call" when no call follows the marker.
        """
        found = self._closers.find(buffer[self._searched :])
        if found is not None:
            self.closer_at, self.closer_length = self._searched + found.start(), len(found[0])
            return "quoted"
        self._searched += self._closers.certain_length(buffer[self._searched :])
        self._follow(buffer)
        if self._has_known_call or self._is_token or not self._is_over:
            return "undecided"
        # A call of an unknown tool counts only at the end of the answer.
        return (
            "undecided"
            if self._has_call and self._may_end(buffer[self._read_to :].lstrip(WHITESPACE))
            else "no call"
        )

    def counts_at_end(self, buffer: str) -> bool:
        """Whether an answer that ends here made a call, or began one."""
        if self._is_token or not buffer[self.marker_end :].strip(WHITESPACE):
            return True
        if not self._is_over and not self._has_known_call:
            self._take(self._body.finish(buffer[self._read_to :]))
        return self._has_call

    def _may_end(self, rest: str) -> bool:
        """Whether the answer may end after the call.

        A closer or another call may follow.
        """
        while closer := next(filter(rest.startswith, self._call_closers), ""):
            rest = rest[len(closer) :].lstrip(WHITESPACE)
        may_come = any(marker.startswith(rest) for marker in (*self._call_closers, *self._call_openers))
        return may_come or rest.startswith(tuple(self._call_openers))

    def _follow(self, buffer: str) -> None:
        while not self._is_over and not self._has_known_call:
            end, signals = self._body.read(buffer, self._read_to)
            self._read_to = end
            if not signals:
                return
            self._take(signals)

    def _take(self, signals: Sequence[Signal]) -> None:
        for signal in signals:
            match signal:
                case CallStarted():
                    self._has_call = True
                    self._has_known_call = self._has_known_call or self._tools.has_tool(signal.name)
                case BodyEnded() | BodyRejected():
                    self._is_over = True
                case _:
                    pass


class ThinkingReader:
    """Parses the thoughts of one answer from the machine's buffer.

    `is_open` is true until a thought's closer, or a call or message that ends it.
    """

    def __init__(
        self,
        buffer: TextBuffer,
        events: AnswerEvents,
        thinking: ThinkingParser,
        tools: ToolParser,
        schemas: ToolSchemas,
    ) -> None:
        self.is_open = False
        self._buffer = buffer
        self._events = events
        self._thinking = thinking
        self._tools = tools
        self._schemas = schemas
        markers = thinking.closers | tools.openers
        if thinking.has_messages:
            markers |= thinking.headers
            markers |= {begin for name in schemas.names for begin in tools.bare_calls(name)}
        self._markers = MarkerSet(markers, thinking.trims + tools.space_before)
        self._is_at_start = False
        self._call: ThoughtCall | None = None

    def open(self) -> None:
        """Begin a thought after its opener."""
        self.is_open = self._is_at_start = True

    def advance(self) -> bool:
        """Parse on in the buffer; return whether to continue."""
        buffer, thinking = self._buffer, self._thinking
        if self._is_at_start:
            if buffer.text.startswith(thinking.opener):
                buffer.consume(len(thinking.opener))
                buffer.trim_next = thinking.trims
                return True
            if thinking.opener.startswith(buffer.text):
                return False
            self._is_at_start = False
        if self._call is not None:
            return self._advance_call(self._call)
        marker = self._markers.find(buffer.text)
        if marker is None:
            self._events.add_thinking(buffer.consume(self._markers.certain_length(buffer.text)))
            return False
        if marker[0] in thinking.closers:
            self._close(marker.start(), len(marker[0]))
            return True
        thought = buffer.text[: marker.start()].rstrip(self._tools.space_before)
        self._events.add_thinking(buffer.consume(len(thought)))
        if thinking.has_messages:
            self.is_open = False
            return True
        self._call = self._create_call(marker[0], marker.start() - len(thought))
        return True

    def close_at_end(self) -> bool:
        """Close the thought at a closer that begins a longer one.

        Returns whether there is one.
        """
        marker = self._markers.find(self._buffer.text, is_final=True)
        if marker is None or marker[0] not in self._thinking.closers:
            return False
        self._close(marker.start(), len(marker[0]))
        return True

    def finish_call(self) -> bool | None:
        """Decide a held call at the answer's end: whether it counts.

        None without a held call.
        """
        call, self._call = self._call, None
        if call is None:
            return None
        if call.counts_at_end(self._buffer.text):
            self.is_open = False
            return True
        self._emit_marker(call)
        return False

    def _close(self, length: int, closer_length: int) -> None:
        self._events.add_thinking(self._buffer.consume(length).rstrip(self._thinking.trims))
        self._buffer.consume(closer_length)
        # Behind text, the line break separates it from more.
        self._buffer.trim_next = self._thinking.trims if self._events.is_blank else ""
        self.is_open = False

    def _create_call(self, marker: str, begin: int) -> ThoughtCall:
        """Follow a possible call; its marker is at `begin` of the buffer."""
        assert self._tools.open_body is not None, "a parser with markers has a reader"
        return ThoughtCall(
            self._tools.open_body(Opening(marker=marker, tools=self._schemas)),
            self._schemas,
            self._tools,
            closers=self._thinking.closers,
            marker_end=begin + len(marker),
            is_token=is_control_token(marker),
        )

    def _advance_call(self, call: ThoughtCall) -> bool:
        decision = call.read(self._buffer.text)
        if decision == "undecided":
            return False
        self._call = None
        if decision == "quoted":
            self._close(call.closer_at, call.closer_length)
        else:
            self._emit_marker(call)
        return True

    def _emit_marker(self, call: ThoughtCall) -> None:
        """Emit the marker of a rejected call as thinking.

        White space at its end stays in the buffer.
        """
        length = len(self._buffer.text[: call.marker_end].rstrip(WHITESPACE))
        self._events.add_thinking(self._buffer.consume(length))
