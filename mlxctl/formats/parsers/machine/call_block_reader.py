"""Parses blocks of calls; blocks that are no calls become text."""

import re
from collections.abc import Iterator, Sequence

from mlxctl.formats.parsers.declarations import (
    WHITESPACE,
    BodyEnded,
    BodyReader,
    BodyRejected,
    CallArguments,
    CallEnded,
    CallStarted,
    Opening,
    Punctuation,
    Signal,
    ToolParser,
)
from mlxctl.formats.parsers.machine.answer_events import AnswerEvents
from mlxctl.formats.parsers.machine.other_message import OtherMessageReader
from mlxctl.formats.parsers.machine.text_buffer import TextBuffer
from mlxctl.formats.parsers.markers import MarkerSet, without_partial_marker
from mlxctl.formats.parsers.schemas import ToolSchemas

# The head of a call that an answer is cut off in: a name, quotes and tags.
_MAX_HEAD_CHARS = 256
_TAG = re.compile(r"<[^<>]*>?")
_TWO_WORDS = re.compile(r"\w[^\S\n]+\w")


class CallBlockReader:
    """Parses the blocks of calls of one answer from the machine's buffer.

    `is_open` is true from a block's start until it ends or is rejected. `has_call` is true once the block has
    a call. A rejected block that began like a message to another recipient is passed to `other_message`.
    With `only_offered` a call of a tool that is not offered is rejected. `control_tokens` match the control
    tokens of calls, `cut_markers` find the beginning of a marker at the answer's end.
    """

    def __init__(
        self,
        buffer: TextBuffer,
        events: AnswerEvents,
        tools: ToolParser,
        schemas: ToolSchemas,
        *,
        only_offered: bool,
        other_message: OtherMessageReader,
        control_tokens: re.Pattern[str],
        cut_markers: MarkerSet,
    ) -> None:
        self.is_open = False
        self.has_call = False
        self._buffer = buffer
        self._events = events
        self._tools = tools
        self._schemas = schemas
        self._only_offered = only_offered
        self._other_message = other_message
        self._control_tokens = control_tokens
        self._cut_markers = cut_markers
        self._body: BodyReader | None = None
        self._opening_length = 0
        self._is_marked = False
        self._may_be_empty = False
        self._dropped_opener = ""
        self._is_cut_off = False

    def open(self, marker: str, length: int, *, is_dropped: bool) -> None:
        """Begin a block of calls after its marker, which may be "".

        `length` covers the marker and white space dropped before it. With `is_dropped` the marker also begins
        messages to other recipients, which are dropped.
        """
        assert self._tools.open_body is not None, "a parser with markers has a reader"
        self._body = self._tools.open_body(Opening(marker=marker, tools=self._schemas))
        self.is_open, self.has_call = True, False
        self._dropped_opener = marker if is_dropped else ""
        self._is_marked = bool(marker)
        self._may_be_empty = self._is_marked and self._events.is_blank
        # A call without a marker is text from its first character on.
        self._opening_length = length + (not marker)
        self._buffer.hold(length)

    def advance(self) -> bool:
        """Parse on in the buffer; return whether to continue."""
        assert self._body is not None
        if self._may_be_empty and not self._has_content():
            return not self.is_open
        end, signals = self._body.read(self._buffer.text, 0)
        self._buffer.hold(end)
        self._take_signals(signals)
        return bool(signals)

    def finish(self, *, is_cut_off: bool) -> None:
        """End the block at the answer's end.

        With `is_cut_off` a call that the model has not closed stays open, and the head of one is dropped.
        """
        assert self._body is not None
        if self._may_be_empty:
            self._drop(len(self._buffer.text))
            return
        rest = self._buffer.text
        self._buffer.hold(len(rest))
        self._is_cut_off = is_cut_off
        self._take_signals(self._body.finish(rest), is_final=True)

    def _has_content(self) -> bool:
        """Whether a block before any text is more than its two markers.

        Later, text may quote them.
        """
        text = self._buffer.text
        begun = text.lstrip(WHITESPACE)
        closers = self._tools.closers
        marks = closers | {opener for opener in self._tools.openers if opener.startswith(tuple(closers))}
        if any(mark != begun and mark.startswith(begun) for mark in marks):
            return False
        mark = max(filter(begun.startswith, marks), key=len, default="")
        if mark in closers:
            self._drop(len(text) - len(begun) + len(mark))
        else:
            self._may_be_empty = False
        return not self._may_be_empty

    def _drop(self, length: int) -> None:
        """End a block without calls."""
        self._buffer.hold(length)
        self._buffer.clear_held()
        self.is_open = False

    def _take_signals(self, signals: Sequence[Signal], *, is_final: bool = False) -> None:
        for signal in signals:
            match signal:
                case CallStarted(name=name) if not self._may_call(name):
                    self._reject(is_final=is_final)
                    return
                case CallStarted():
                    self.has_call = True
                    self._events.start_call(signal.name)
                case CallArguments():
                    self._events.add_arguments(signal.json)
                case CallEnded():
                    was_left_open = is_final and not (signal.is_complete or self._is_cut_off)
                    self._events.end_call(
                        is_complete=signal.is_complete, lacks_only_end=signal.lacks_only_end or was_left_open
                    )
                case Punctuation():
                    pass
                case BodyEnded():
                    self.is_open = False
                    self._buffer.return_trailing_space()
                case BodyRejected(begun_call=name) if (
                    name and is_final and not self._is_cut_off and self._may_call(name)
                ):
                    self.is_open = False
                    self._events.start_call(name)
                    self._events.end_call(is_complete=False, lacks_only_end=True)
                case BodyRejected():
                    self._reject(is_final=is_final)
                    return
            self._buffer.clear_held()
            self._opening_length = 0
            if self._events.is_over:
                return

    def _may_call(self, name: str) -> bool:
        return not self._only_offered or self._schemas.is_available(name)

    def _reject(self, *, is_final: bool) -> None:
        """End a block that is no call."""
        self.is_open = False
        self._reject_held(is_final=is_final)
        self._buffer.clear_held()
        self._opening_length = 0

    def _reject_held(self, *, is_final: bool) -> None:
        """Emit the marker of a rejected call as text, without control tokens.

        The text after it is parsed again: it may have a marker.
        """
        if self._dropped_opener:
            self._other_message.reopen(self._dropped_opener)
            return
        held = self._buffer.held
        opening, rest = held[: self._opening_length], held[self._opening_length :]
        is_begun = self._may_begin_call(held) or (self._is_cut_off and _is_begun_head(rest))
        if is_final and self._is_marked and is_begun:
            return
        self._buffer.put_back(rest)
        if is_final:
            self._buffer.text = without_partial_marker(self._buffer.text, self._cut_markers)
        pieces = list(self._pieces_without_tokens(opening))
        if not rest.strip() and not "".join(piece for piece, _ in pieces).strip():
            return
        for piece, at in pieces:
            if not self._events.is_over:
                self._events.add_text(piece, self._buffer.held_start + at)

    def _may_begin_call(self, held: str) -> bool:
        """Whether the text is a marker, or begins an available tool's call."""
        begun = "".join(held.split())
        forces = self._tools.forced_prefix, *self._tools.dialects
        calls = (force(name) or "" for force in forces for name in self._schemas.names)
        return held.strip(WHITESPACE) in self._tools.openers or any(
            "".join(call.split()).startswith(begun) for call in calls
        )

    def _pieces_without_tokens(self, text: str) -> Iterator[tuple[str, int]]:
        """Yield the text around control tokens, with its positions."""
        at = 0
        for token in self._control_tokens.finditer(text):
            yield text[at : token.start()], at
            at = token.end()
        yield text[at:], at


def _is_begun_head(text: str) -> bool:
    """Whether undecided text is the head of a call.

    It has a name, quotes and tags; prose has several words.
    """
    return len(text) <= _MAX_HEAD_CHARS and not _TWO_WORDS.search(_TAG.sub("\n", text))
