"""The events of one answer, and its stop strings."""

import json
import secrets
from collections.abc import Callable, Sequence
from typing import Literal

from mlxctl.formats.parsers.json_value import missing_end
from mlxctl.formats.parsers.machine.citation_tags import CitationTags
from mlxctl.ir import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenLogprob,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
)

LogprobsBetween = Callable[[int, int], tuple[TokenLogprob, ...]]
"""Returns the log-probabilities of the tokens that begin between two character offsets."""


class StopStrings:
    """Searches one run of visible text for stop strings, across any chunking.

    The match that is complete first wins; of several that are complete at the same character, the longest.
    `held` is text that may begin a stop string and is not emitted yet.
    """

    __slots__ = ("_stops", "held")

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self.held = ""

    def __bool__(self) -> bool:
        return bool(self._stops)

    def feed(self, text: str) -> tuple[str, str | None]:
        """Take more text; return what can be emitted.

        The second value is the stop string found, if any.
        """
        text = self.held + text
        found = min(
            ((start + len(stop), start, stop) for stop in self._stops if (start := text.find(stop)) >= 0),
            default=None,
        )
        if found is not None:
            self.held = ""
            return text[: found[1]], found[2]
        certain = min(_certain_length(text, stop) for stop in self._stops)
        self.held = text[certain:]
        return text[:certain], None

    def release(self) -> str:
        """End the run; return the held text."""
        held, self.held = self.held, ""
        return held


def _certain_length(text: str, stop: str) -> int:
    """Return how many characters cannot belong to an unfinished match of `stop`."""
    at = text.find(stop[0], max(0, len(text) - len(stop) + 1))
    while at >= 0 and not stop.startswith(text[at:]):
        at = text.find(stop[0], at + 1)
    return at if at >= 0 else len(text)


class _Call:
    """A complete call of this answer.

    `squeezed` are its arguments without white space.
    """

    __slots__ = ("_arguments", "name", "squeezed")

    def __init__(self, name: str, arguments: str) -> None:
        self.name = name
        self.squeezed = _without_space(arguments)
        self._arguments = arguments

    def has(self, arguments: str) -> bool:
        """Whether these are its arguments, however they are written."""
        if arguments == self._arguments:
            return True
        try:
            return bool(json.loads(arguments) == json.loads(self._arguments))
        except (ValueError, RecursionError):
            return False


def _without_space(text: str) -> str:
    return "".join(text.split())


class AnswerEvents:
    """Collects the events of one answer in order.

    Offsets count characters of the generated text. `is_blank` is true as long as no text was emitted since
    the start or the last call. `is_over` is true once a stop string or the last allowed call ended the
    answer. `changes_text` is true where text may be held or removed, for a stop string or a citation tag.
    `break_before` is the kind of content that `message_break` precedes, because it begins another message.
    With `ends_repeated` a call that repeats an earlier one is not emitted and ends the answer; a call is held
    as long as it may be one.
    """

    def __init__(
        self,
        *,
        stop: Sequence[str],
        max_calls: int | None,
        ends_repeated: bool,
        logprobs_between: LogprobsBetween | None,
        is_blank: bool,
        citation_tag: str,
        message_break: str,
    ) -> None:
        self.is_over = False
        self.is_blank = is_blank
        self.stop_sequence: str | None = None
        self.num_calls = 0
        self.num_complete_calls = 0
        self.pending: list[StreamEvent] = []
        self._max_calls = max_calls
        self._ends_repeated = ends_repeated
        self._calls: list[_Call] = []
        # The calls that the current one may repeat, and its events until it does not.
        self._candidates: list[_Call] = []
        self._held_call: list[StreamEvent] = []
        self._name = ""
        self._arguments: list[str] = []
        self._num_begun_chars = 0
        self._logprobs_between = logprobs_between
        self._stops = StopStrings(stop)
        self._stops_start = 0
        self._text_citations = CitationTags(citation_tag)
        self._thinking_citations = CitationTags(citation_tag)
        self.changes_text = bool(self._stops) or bool(citation_tag)
        self.break_before: Literal["text", "thinking", ""] = ""
        self._message_break = message_break
        self._last: Literal["text", "thinking", ""] = ""

    def take(self) -> list[StreamEvent]:
        """Return the pending events and forget them."""
        events, self.pending = self.pending, []
        return events

    def add_text(self, text: str, start: int) -> None:
        """Emit visible text that began at `start`.

        Text that may begin a stop string is held.
        """
        if not text:
            return
        self.is_blank = False
        self._release_thinking()
        if self.break_before == "text":
            self.pending.append(TextDelta(text=self._message_break))
        self.break_before, self._last = "", "text"
        for piece, at in self._text_citations.feed(text, start):
            if not self.is_over:
                self._search_stops(piece, at)

    def _search_stops(self, text: str, start: int) -> None:
        if self._stops and text:
            start = self._stops_start if self._stops.held else start
            text, self.stop_sequence = self._stops.feed(text)
            self._stops_start = start + len(text)
            self.is_over = self.stop_sequence is not None
        if text:
            self.pending.append(self.text_delta(text, start))

    def add_thinking(self, text: str) -> None:
        """Emit a piece of thinking."""
        if not text:
            return
        if self.break_before == "thinking":
            self.pending.append(ThinkingDelta(text=self._message_break))
        self.break_before, self._last = "", "thinking"
        for piece, _ in self._thinking_citations.feed(text, 0):
            if piece:
                self.pending.append(ThinkingDelta(text=piece))

    def begin_message(self) -> None:
        """Separate what follows from content of the same kind before it."""
        self.break_before = self._last if self._message_break else ""

    def _release_thinking(self) -> None:
        held, _ = self._thinking_citations.release()
        if held:
            self.pending.append(ThinkingDelta(text=held))

    def start_call(self, name: str) -> None:
        """Emit the start of a call with a new id."""
        self.release_stops()
        self.break_before = self._last = ""
        self._arguments.clear()
        call_id = f"call_{secrets.token_hex(12)}"
        self._name, self._num_begun_chars = name, 0
        self._candidates = [call for call in self._calls if call.name == name]
        self._add_call_event(ToolCallStarted(index=self.num_calls, id=call_id, name=name))

    def add_arguments(self, text: str) -> None:
        """Emit more of the current call's arguments."""
        self._arguments.append(text)
        if self._candidates:
            begun, at = _without_space(text), self._num_begun_chars
            self._candidates = [call for call in self._candidates if call.squeezed.startswith(begun, at)]
            self._num_begun_chars += len(begun)
        self._add_call_event(ToolArgumentsDelta(index=self.num_calls, json=text))

    def _add_call_event(self, event: StreamEvent) -> None:
        self._held_call.append(event)
        if not self._candidates:
            self.pending += self._held_call
            self._held_call = []

    def end_call(self, *, is_complete: bool, lacks_only_end: bool) -> None:
        """Emit the end of the current call.

        Arguments that the model forgot to close are closed.
        """
        if lacks_only_end:
            closing = missing_end("".join(self._arguments))
            is_complete = closing is not None
            if closing:
                self.add_arguments(closing)
        arguments = "".join(self._arguments)
        if self._candidates and (not is_complete or any(call.has(arguments) for call in self._candidates)):
            self._held_call = []
            self.is_over = is_complete
            return
        self._candidates = []
        self._add_call_event(ToolCallEnded(index=self.num_calls))
        if self._ends_repeated and is_complete:
            self._calls.append(_Call(self._name, arguments))
        self.num_calls += 1
        self.is_blank = True
        self.num_complete_calls += is_complete
        if self._max_calls is not None and self.num_complete_calls >= self._max_calls:
            self.is_over = True

    def release_stops(self) -> None:
        """Emit text held for a stop string or a citation.

        Other events follow, so no match can continue.
        """
        self._release_thinking()
        self._search_stops(*self._text_citations.release())
        if held := self._stops.release():
            self.pending.append(self.text_delta(held, self._stops_start))

    def plain_text(self, text: str, start: int) -> TextDelta:
        """Return the delta of text that nothing is searched in."""
        self._last = "text"
        return self.text_delta(text, start)

    def text_delta(self, text: str, start: int) -> TextDelta:
        """Return a delta with the log-probabilities of its tokens."""
        if self._logprobs_between is None:
            return TextDelta(text=text)
        return TextDelta(text=text, logprobs=self._logprobs_between(start, start + len(text)))
