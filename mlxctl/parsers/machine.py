"""The one machine that turns model text into events: text, thinking and tool calls are its states, not
parsers in a chain.

    state      ends with                what is said text       <think>, <tool_call>     TextDelta; stop
    strings are looked for here and only here thinking   </think>                 ThinkingDelta; a call in it
    is held until it is known whether the thought is closed call       what the body decides
    ToolCallStarted, ToolArgumentsDelta, ToolCallEnded; or text, if it is no call after all aside      any
    marker               nothing: it is said to somebody who is not here

Text is passed on as soon as it cannot become a marker, so joined deltas are the same for every chunking. A
closing think marker without an opening is dropped, and so is an opening one at the very beginning of
thinking, which the template may have opened already, and so are a format's wrappers. A call in a thought that
is never closed is a call, and ends the thought: it has to name a tool that is on offer, or stand at the end
of the answer. In a closed thought it is quoted, and part of the thought. White space is dropped where a
format puts it: on the inner sides of thinking and behind it, before a call, and where there is nothing else
before thinking, between calls or after the last. Nothing else is ever lost.
"""

import re
import secrets
from collections.abc import Callable, Sequence
from typing import Literal

from mlxctl.ir import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    TokenLogprob,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
    ToolSpec,
)
from mlxctl.parsers.declarations import (
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
    ThinkingParser,
    ToolParser,
)
from mlxctl.parsers.formats import null
from mlxctl.parsers.markers import MarkerSet
from mlxctl.parsers.schemas import ToolSchemas
from mlxctl.parsers.stop_strings import StopStrings
from mlxctl.parsers.thought_call import ThoughtCall

LogprobsBetween = Callable[[int, int], tuple[TokenLogprob, ...]]


class AnswerMachine:
    """Reads one answer. Request-scoped, not thread-safe, never raises on what a model says.

    `prompt_tail` is the marker, and what follows it, that the prompt ends with and the model continues; what
    it says already comes with the first text. `offered` are the tools that may be called; without them calls
    are read all the same, but untyped arguments are guessed at. `max_calls` complete calls end the answer.
    `logprobs_between(start, end)` gives what is known of the tokens that begin in that span of the generated
    text, counted in characters. `is_over` says that a stop string or the last allowed call has ended the
    answer.
    """

    def __init__(
        self,
        *,
        tools: ToolParser = null.TOOLS,
        thinking: ThinkingParser = null.THINKING,
        offered: Sequence[ToolSpec] = (),
        stop: Sequence[str] = (),
        prompt_tail: str = "",
        max_calls: int | None = None,
        logprobs_between: LogprobsBetween | None = None,
    ) -> None:
        self.is_over = False
        self.stop_sequence: str | None = None
        self.num_complete_calls = 0
        self._tools = tools
        self._thinking = thinking
        self._schemas = ToolSchemas(offered)
        self._max_calls = max_calls
        self._logprobs_between = logprobs_between
        self._stops = StopStrings(stop)
        self._stops_start = 0
        self._block_markers = tools.openers | tools.closers
        markers = thinking.markers | tools.openers
        self._outside_markers = MarkerSet(markers, trims=WHITESPACE if tools.openers else "")
        self._in_block_markers = MarkerSet(markers | tools.closers, trims=WHITESPACE)
        self._thinking_markers = MarkerSet(
            thinking.closers | tools.openers, WHITESPACE if tools.openers else thinking.trims
        )
        self._thought_call: ThoughtCall | None = None
        self._any_markers = MarkerSet(markers | tools.closers)
        self._text_markers = self._outside_markers
        self._state: Literal["text", "thinking", "call", "aside"] = "text"
        self._is_blank = bool(markers or tools.bare_openers)
        self._trim_next = ""
        self._at_thinking_start = False
        self._body: BodyReader | None = None
        self._is_aside = False
        self._held: list[str] = []
        self._held_start = 0
        self._num_calls = 0
        self._buffer = ""
        self._offset = -len(prompt_tail)
        self._events: list[StreamEvent] = []
        self._events = self.feed(prompt_tail)

    @property
    def is_thinking(self) -> bool:
        """Whether what comes next is read as thinking."""
        return self._state == "thinking"

    def feed(self, text: str) -> list[StreamEvent]:
        """Take more of the answer and return what it brought."""
        if (
            self._state == "text"
            and not (self._buffer or self._is_blank or self._trim_next or self._stops)
            and text
            and self._text_markers.is_plain(text)
        ):
            start = self._offset
            self._offset += len(text)
            return [self._text_delta(text, start)]
        self._buffer += text
        while self._buffer and not self.is_over and self._advance():
            pass
        return self._take_events()

    def finish(self) -> list[StreamEvent]:
        """The answer is over: return what was held back."""
        if self.is_over:
            return []
        self._finish_reading()
        return self._take_events()

    def _finish_reading(self) -> None:
        self._finish_thought_call()
        while not self.is_over and self._advance_final():
            pass
        if self.is_over:
            return
        if self._state == "aside":
            self._consume(len(self._buffer))
        if self._state == "thinking":
            self._think(self._consume(len(self._buffer)).rstrip(self._thinking.trims))
        if not (self._num_calls and self._is_blank and self._buffer.isspace()):
            self._say_next(len(self._buffer))
        self._release_stops()

    def _advance_final(self) -> bool:
        """Read on where nothing more comes; say whether there may be more to read."""
        if self._state == "call":
            while self._state == "call" and self._advance_call():
                pass
            if self._state == "call":
                self._finish_body()
        self._trim()
        return self._state == "text" and bool(self._buffer) and self._advance_text(is_final=True)

    def _advance(self) -> bool:
        """Read on from the buffer; say whether there may be more to read in it."""
        if self._state == "call":
            return self._advance_call()
        if self._state == "aside":
            return self._advance_aside()
        self._trim()
        if not self._buffer:
            return False
        return self._advance_text() if self._state == "text" else self._advance_thinking()

    def _advance_text(self, *, is_final: bool = False) -> bool:
        marker = self._text_markers.find(self._buffer, is_final=is_final)
        if self._is_blank and self._opens_bare(marker, is_final=is_final):
            self._open("", len(self._buffer) - len(self._buffer.lstrip(WHITESPACE)))
            return True
        if marker is None:
            certain = self._buffer[: self._text_markers.certain_length(self._buffer)]
            self._say_next(0 if self._is_blank and certain.isspace() else len(certain))
            return False
        text_length = self._spoken_length(self._buffer[: marker.start()], marker[0])
        self._say_next(text_length)
        if not self.is_over:
            self._enter(marker[0], marker.end() - text_length)
        return not self.is_over

    def _spoken_length(self, text: str, marker: str) -> int:
        """How much of the text before a marker is said."""
        spoken = text.rstrip(WHITESPACE)
        is_trimmed = marker in self._block_markers or (self._is_blank and not spoken)
        return len(spoken) if is_trimmed else len(text)

    def _enter(self, marker: str, length: int) -> None:
        """Go where the marker leads, over the marker and the `length` of it with what is trimmed before it."""
        if marker in self._tools.openers:
            self._open(marker, length)
            return
        self._release_stops()
        self._consume(length)
        if marker in self._block_markers:
            self._text_markers = self._outside_markers
            return
        if marker in self._thinking.asides:
            self._state = "aside"
            return
        self._trim_next = self._thinking.trims
        if marker in self._thinking.openers:
            self._state = "thinking"
            self._at_thinking_start = True

    def _opens_bare(self, marker: re.Match[str] | None, *, is_final: bool) -> bool:
        """Whether the buffer, before which nothing was said, begins with a call that has no marker."""
        begun = self._buffer.lstrip(WHITESPACE)
        if not begun or begun[0] not in self._tools.bare_openers:
            return False
        if marker is None:
            return is_final or not self._text_markers.may_begin(begun)
        return marker.start() > self._buffer.index(begun[0])

    def _open(self, marker: str, length: int) -> None:
        """Begin a body over `length` characters: the marker, and what is trimmed before it."""
        assert self._tools.open_body is not None
        self._state = "call"
        self._body = self._tools.open_body(Opening(marker=marker, tools=self._schemas))
        self._text_markers = self._outside_markers
        self._is_aside = marker in self._thinking.asides
        self._hold(length)

    def _advance_thinking(self) -> bool:
        if self._at_thinking_start:
            if self._buffer.startswith(self._thinking.opener):
                self._consume(len(self._thinking.opener))
                self._trim_next = self._thinking.trims
                return True
            if self._thinking.opener.startswith(self._buffer):
                return False
            self._at_thinking_start = False
        if self._thought_call is not None:
            return self._advance_thought_call(self._thought_call)
        marker = self._thinking_markers.find(self._buffer)
        if marker is None:
            self._think(self._consume(self._thinking_markers.certain_length(self._buffer)))
            return False
        if marker[0] not in self._thinking.closers:
            spoken = self._buffer[: marker.start()].rstrip(WHITESPACE)
            self._think(self._consume(len(spoken)))
            if self._thinking.ends_at_calls:
                self._state = "text"
                return True
            self._thought_call = self._quoted_call(marker[0], marker.start() - len(spoken))
            return True
        self._think(self._consume(marker.start()).rstrip(self._thinking.trims))
        self._close_thought(len(marker[0]))
        return True

    def _close_thought(self, closer_length: int) -> None:
        self._consume(closer_length)
        self._state = "text"
        self._trim_next = self._thinking.trims

    def _quoted_call(self, marker: str, begin: int) -> ThoughtCall:
        """What may be a call in a thought; its marker stands at `begin` of the buffer."""
        assert self._tools.open_body is not None
        body = self._tools.open_body(Opening(marker=marker, tools=self._schemas))
        return ThoughtCall(
            body, self._schemas, self._tools, closers=self._thinking.closers, marker_end=begin + len(marker)
        )

    def _advance_thought_call(self, call: ThoughtCall) -> bool:
        verdict = call.read(self._buffer)
        if verdict == "undecided":
            return False
        self._thought_call = None
        if verdict == "quoted":
            self._think(self._consume(call.closer_at).rstrip(self._thinking.trims))
            self._close_thought(call.closer_length)
        else:
            self._think_marker(call)
        return True

    def _think_marker(self, call: ThoughtCall) -> None:
        """What is no call begins with a marker that is part of the thought; white space at its end may be the
        thought's.
        """
        self._think(self._consume(len(self._buffer[: call.marker_end].rstrip(WHITESPACE))))

    def _finish_thought_call(self) -> None:
        """The answer is over in a thought: a call that was held counts, and the thought has ended before it."""
        while (call := self._thought_call) is not None:
            self._thought_call = None
            if call.counts_at_the_end(self._buffer):
                self._state = "text"
            else:
                self._think_marker(call)
            while self._buffer and not self.is_over and self._advance():
                pass

    def _advance_aside(self) -> bool:
        marker = self._any_markers.find(self._buffer)
        self._consume(self._any_markers.certain_length(self._buffer) if marker is None else marker.start())
        if marker is None:
            return False
        self._state = "text"
        return True

    def _advance_call(self) -> bool:
        assert self._body is not None
        end, signals = self._body.read(self._buffer, 0)
        self._hold(end)
        self._take_signals(signals)
        return bool(signals)

    def _finish_body(self) -> None:
        assert self._body is not None
        rest = self._buffer
        self._hold(len(rest))
        self._take_signals(self._body.finish(rest))

    def _take_signals(self, signals: Sequence[Signal]) -> None:
        for signal in signals:
            match signal:
                case CallStarted():
                    self._release_stops()
                    self._text_markers = self._in_block_markers
                    call_id = f"call_{secrets.token_hex(12)}"
                    self._events.append(ToolCallStarted(index=self._num_calls, id=call_id, name=signal.name))
                case CallArguments():
                    self._events.append(ToolArgumentsDelta(index=self._num_calls, json=signal.json))
                case CallEnded():
                    self._end_call(is_complete=signal.is_complete)
                case Punctuation():
                    pass
                case BodyEnded():
                    self._give_back_white_space()
                case BodyRejected():
                    self._say_held()
            self._held.clear()
            if self.is_over:
                return

    def _end_call(self, *, is_complete: bool) -> None:
        self._events.append(ToolCallEnded(index=self._num_calls))
        self._num_calls += 1
        self._is_blank = True
        self.num_complete_calls += is_complete
        if self._max_calls is not None and self.num_complete_calls >= self._max_calls:
            self.is_over = True

    def _hold(self, length: int) -> None:
        """Consume what is neither text nor call yet."""
        if not self._held:
            self._held_start = self._offset
        self._held.append(self._consume(length))

    def _say_held(self) -> None:
        """What was held is text, unless it is said to somebody else."""
        self._state = "aside" if self._is_aside else "text"
        held = "".join(self._held)
        if not self._is_aside and not held.isspace():
            self._say(held, self._held_start)

    def _give_back_white_space(self) -> None:
        """What was held is a block's punctuation, except the white space behind it: text may follow."""
        self._state = "text"
        held = "".join(self._held)
        behind = held[len(held.rstrip(WHITESPACE)) :]
        self._buffer = behind + self._buffer
        self._offset -= len(behind)

    def _consume(self, length: int) -> str:
        text, self._buffer = self._buffer[:length], self._buffer[length:]
        self._offset += length
        return text

    def _trim(self) -> None:
        """Drop the white space that follows a marker, as far as it has come."""
        if self._trim_next and self._buffer:
            self._consume(len(self._buffer) - len(self._buffer.lstrip(self._trim_next)))
            if self._buffer:
                self._trim_next = ""

    def _think(self, text: str) -> None:
        if text:
            self._events.append(ThinkingDelta(text=text))

    def _say_next(self, length: int) -> None:
        start = self._offset
        self._say(self._consume(length), start)

    def _say(self, text: str, start: int) -> None:
        """Say visible text that began at `start`, unless it completes a stop string or may become one."""
        if not text:
            return
        self._is_blank = False
        if self._stops:
            start = self._stops_start if self._stops.held else start
            text, self.stop_sequence = self._stops.feed(text)
            self._stops_start = start + len(text)
            self.is_over = self.stop_sequence is not None
        if text:
            self._events.append(self._text_delta(text, start))

    def _release_stops(self) -> None:
        """What is said next does not continue the visible text, so no stop string can go on there."""
        if held := self._stops.release():
            self._events.append(self._text_delta(held, self._stops_start))

    def _text_delta(self, text: str, start: int) -> TextDelta:
        if self._logprobs_between is None:
            return TextDelta(text=text)
        return TextDelta(text=text, logprobs=self._logprobs_between(start, start + len(text)))

    def _take_events(self) -> list[StreamEvent]:
        events, self._events = self._events, []
        return events
