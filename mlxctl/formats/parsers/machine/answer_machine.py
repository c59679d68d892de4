"""Generated text to text, thinking and tool calls: one state machine.

    state      ends with                  emits
    text       <think>, <tool_call>       TextDelta; stop strings are searched here and only here
    thinking   </think>                   ThinkingDelta; a call in it is held until it is known whether the
                                          thought is closed
    call       what the body decides      ToolCallStarted, ToolArgumentsDelta, ToolCallEnded; or text, if it
                                          is no call after all
    other      any marker                 nothing: the message has another recipient; or text, if its header
                                          has no end

- Text is emitted as soon as it cannot become a marker, so joined deltas are the same for every chunking.
- Dropped are: a closing think marker without an opening one; an opening one at the very start of thinking,
  since the template may have opened it already; a format's wrappers.
- A call in a thought that is never closed counts, and ends the thought, if it names an available tool or is
  at the end of the answer. A control token of calls ends such a thought, too. A call in a closed thought is
  quoted, and part of the thought.
- White space is dropped where a format puts it: on the inner sides of closed thinking, and where there is no
  text yet: before and after thinking, before the first call, between calls or after the last.
- Control tokens of calls are never text. At the end of the answer or of a thought, a call's marker is no text
  either, nor is the beginning of a marker or of an available tool's call. Nothing else is lost.
- A block that is only its two markers is dropped before any text; later, text may quote the markers.
- A call that the model leaves open is closed, unless the answer was cut off. Then the head of any call is
  dropped, too.
"""

import re
from collections.abc import Sequence
from typing import Literal

from mlxctl.formats.parsers.declarations import WHITESPACE, ThinkingParser, ToolParser
from mlxctl.formats.parsers.machine.answer_events import AnswerEvents, LogprobsBetween
from mlxctl.formats.parsers.machine.call_block_reader import CallBlockReader
from mlxctl.formats.parsers.machine.other_message import OtherMessageReader
from mlxctl.formats.parsers.machine.text_buffer import TextBuffer
from mlxctl.formats.parsers.machine.thinking_reader import ThinkingReader
from mlxctl.formats.parsers.markers import MarkerSet, is_control_token, without_partial_marker
from mlxctl.formats.parsers.schemas import ToolSchemas
from mlxctl.formats.parsers.tool_formats import null
from mlxctl.ir import Finished, Message, StreamEvent, ToolSpec, Usage, collect


class AnswerMachine:
    """Parses one answer. Request-scoped, not thread-safe; never raises on generated text.

    `prompt_tail` is the marker, and what follows it, that the prompt ends with and the model continues; it is
    parsed first. `tool_specs` are the available tools; without them calls are parsed as well, but
    the types of untyped arguments are guessed. With `only_offered` a call of another tool is text.
    `max_calls` complete calls end the answer, and with `ends_repeated` so does one that repeats another.
    `logprobs_between(start, end)` returns the log-probabilities of the tokens that begin in that span of the
    generated text, in characters.
    """

    def __init__(
        self,
        *,
        tools: ToolParser = null.TOOLS,
        thinking: ThinkingParser = null.THINKING,
        tool_specs: Sequence[ToolSpec] = (),
        stop: Sequence[str] = (),
        prompt_tail: str = "",
        only_offered: bool = False,
        max_calls: int | None = None,
        ends_repeated: bool = False,
        logprobs_between: LogprobsBetween | None = None,
    ) -> None:
        self._tools = tools
        self._thinking = thinking
        schemas = ToolSchemas(tool_specs)
        self._block_markers = tools.openers | tools.closers
        self._stray_tokens = tools.control_tokens - tools.openers
        self._bare_calls = frozenset(begin for tool in tool_specs for begin in tools.bare_calls(tool.name))
        openers = thinking.markers | tools.openers
        markers = openers | self._stray_tokens | self._bare_calls
        self._outside_markers = MarkerSet(markers, tools.space_before)
        self._in_block_markers = MarkerSet(markers | tools.closers, tools.space_before)
        self._cut_markers = MarkerSet({*tools.markers, *filter(is_control_token, thinking.markers)})
        control_tokens = re.compile(
            "|".join(map(re.escape, sorted(tools.control_tokens, reverse=True))) or r"(?!)"
        )
        self._text_markers = self._outside_markers
        self._events = AnswerEvents(
            stop=stop,
            max_calls=max_calls,
            ends_repeated=ends_repeated,
            logprobs_between=logprobs_between,
            is_blank=bool(markers or tools.bare_openers),
            citation_tag=thinking.citation_tag,
            message_break=thinking.message_break,
        )
        self._buffer = TextBuffer(-len(prompt_tail))
        self._state: Literal["text", "thinking", "call", "other"] = "text"
        self._thinking_reader = ThinkingReader(self._buffer, self._events, thinking, tools, schemas)
        self._other_message = OtherMessageReader(
            self._buffer, thinking, tools, tokens=control_tokens, cut_markers=self._cut_markers
        )
        self._calls = CallBlockReader(
            self._buffer,
            self._events,
            tools,
            schemas,
            only_offered=only_offered,
            other_message=self._other_message,
            control_tokens=control_tokens,
            cut_markers=self._cut_markers,
        )
        self._events.pending = self.feed(prompt_tail)

    @property
    def is_over(self) -> bool:
        """Whether a stop string or the last allowed call ended the answer."""
        return self._events.is_over

    @property
    def is_thinking(self) -> bool:
        """Whether the next text is parsed as thinking."""
        return self._state == "thinking"

    @property
    def stop_sequence(self) -> str | None:
        """The stop string that ended the answer."""
        return self._events.stop_sequence

    @property
    def num_complete_calls(self) -> int:
        """Number of calls with whole arguments so far."""
        return self._events.num_complete_calls

    def feed(self, text: str) -> list[StreamEvent]:
        """Parse more of the answer and return its events."""
        buffer, events = self._buffer, self._events
        if (
            self._state == "text"
            and not (
                buffer.text
                or events.is_blank
                or buffer.trim_next
                or events.changes_text
                or events.break_before
            )
            and text
            and self._text_markers.is_plain(text)
        ):
            start = buffer.offset
            buffer.offset += len(text)
            return [events.plain_text(text, start)]
        if not buffer.append(text):
            return []
        self._read_buffer()
        return events.take()

    def finish(self, *, is_cut_off: bool = False) -> list[StreamEvent]:
        """End the answer and return the events of what was held back.

        `is_cut_off` is true where the model did not end the answer itself. A call that it has not closed then
        stays open, because a client must not run half a call; another one is closed.
        """
        if self.is_over:
            return []
        self._buffer.append_spaces()
        self._read_buffer()
        if is_cut_off:
            self._cut_markers = MarkerSet(self._tools.markers | self._thinking.markers)
        if not self._events.is_over:
            self._finish_reading(is_cut_off=is_cut_off)
        return self._events.take()

    def _read_buffer(self) -> None:
        while self._buffer and not self._events.is_over and self._advance():
            pass

    def _finish_reading(self, *, is_cut_off: bool) -> None:
        self._finish_thought_call()
        while not self.is_over and self._advance_final(is_cut_off=is_cut_off):
            pass
        if self.is_over:
            return
        buffer = self._buffer
        if self._state == "other":
            self._other_message.finish()
        buffer.text = without_partial_marker(buffer.text, self._cut_markers)
        if self._state == "thinking":
            self._events.add_thinking(buffer.consume(len(buffer.text)).rstrip(self._thinking.trims))
        if not (self._events.num_calls and self._events.is_blank and buffer.text.isspace()):
            self._emit_text(len(buffer.text))
        self._events.release_stops()

    def _advance_final(self, *, is_cut_off: bool) -> bool:
        """Parse on at the answer's end; return whether to continue."""
        if self._state == "call":
            while self._state == "call" and self._advance_call():
                pass
            if self._state == "call":
                self._calls.finish(is_cut_off=is_cut_off)
                self._follow_calls()
        if self._state == "other":
            return self._advance_other()
        self._buffer.trim()
        if self._state == "thinking":
            closed = self._thinking_reader.close_at_end()
            self._state = "text" if closed else "thinking"
            return closed
        if is_cut_off or self._buffer.offset >= 0:
            # The marker that only begins may itself begin with a shorter one.
            self._buffer.text = without_partial_marker(self._buffer.text, self._cut_markers)
        return self._state == "text" and bool(self._buffer) and self._advance_text(is_final=True)

    def _advance(self) -> bool:
        """Parse on in the buffer; return whether to continue."""
        if self._state == "call":
            return self._advance_call()
        if self._state == "other":
            return self._advance_other()
        self._buffer.trim()
        if not self._buffer:
            return False
        return self._advance_text() if self._state == "text" else self._advance_thinking()

    def _advance_text(self, *, is_final: bool = False) -> bool:
        text = self._buffer.text
        if self._buffer.offset == 0 and (opener := self._thinking.bare_opener):
            if text.startswith(opener):
                self._buffer.consume(len(opener))
                self._enter_thought()
                return True
            if opener.startswith(text) and not is_final:
                return False
        marker = self._text_markers.find(text, is_final=is_final)
        is_blank = self._events.is_blank
        if is_blank and self._opens_bare(marker, is_final=is_final):
            self._open_calls("", len(text) - len(text.lstrip(WHITESPACE)))
            return True
        if marker is None:
            certain = text[: self._text_markers.certain_length(text)]
            self._emit_text(0 if is_blank and certain.isspace() else len(certain))
            return False
        before = text[: marker.start()]
        if marker[0] in self._tools.openers:
            before = before.removesuffix(self._tools.space_before)
        text_length = 0 if is_blank and not before.strip(WHITESPACE) else len(before)
        self._emit_text(text_length)
        if not self.is_over:
            self._enter(marker[0], marker.end() - text_length)
        return not self.is_over

    def _enter(self, marker: str, length: int) -> None:
        """Change the state at a marker.

        `length` includes white space dropped before it.
        """
        if marker in self._tools.openers:
            self._open_calls(marker, length)
            return
        if marker in self._bare_calls:
            self._open_calls("", length - len(marker))
            return
        self._events.release_stops()
        if marker in self._thinking.headers:
            self._events.begin_message()
        is_prompted = self._buffer.offset + length <= 0
        self._buffer.consume(length)
        if marker in self._block_markers:
            self._text_markers = self._outside_markers
            return
        if marker in self._stray_tokens and marker not in self._thinking.markers:
            return
        if marker in self._thinking.dropped_openers:
            self._state = "other"
            self._other_message.open(is_prompted=is_prompted)
            return
        is_thought = marker in self._thinking.openers
        if is_thought or self._events.is_blank:
            self._buffer.trim_next = self._thinking.trims
        if is_thought:
            self._enter_thought()

    def _enter_thought(self) -> None:
        self._state = "thinking"
        self._thinking_reader.open()

    def _opens_bare(self, marker: re.Match[str] | None, *, is_final: bool) -> bool:
        """Whether the buffer begins with a call without a marker."""
        text = self._buffer.text
        begun = text.lstrip(WHITESPACE)
        if not begun or begun[0] not in self._tools.bare_openers:
            return False
        if marker is None:
            return is_final or not self._text_markers.may_begin(begun)
        return marker.start() > text.index(begun[0])

    def _open_calls(self, marker: str, length: int) -> None:
        self._state = "call"
        self._text_markers = self._outside_markers
        self._calls.open(marker, length, is_dropped=marker in self._thinking.dropped_openers)

    def _advance_thinking(self) -> bool:
        advanced = self._thinking_reader.advance()
        if not self._thinking_reader.is_open:
            self._state = "text"
        return advanced

    def _finish_thought_call(self) -> None:
        """Decide a held call at the answer's end."""
        while (is_call := self._thinking_reader.finish_call()) is not None:
            if is_call:
                self._state = "text"
            self._read_buffer()

    def _advance_other(self) -> bool:
        advanced = self._other_message.advance()
        if not self._other_message.is_open:
            self._state = "text"
        return advanced

    def _advance_call(self) -> bool:
        advanced = self._calls.advance()
        self._follow_calls()
        return advanced

    def _follow_calls(self) -> None:
        """Change the state where a block of calls has ended."""
        if self._calls.has_call:
            self._text_markers = self._in_block_markers
        if not self._calls.is_open:
            self._state = "other" if self._other_message.is_open else "text"

    def _emit_text(self, length: int) -> None:
        start = self._buffer.offset
        self._events.add_text(self._buffer.consume(length), start)


def extract(
    text: str,
    *,
    tools: ToolParser = null.TOOLS,
    thinking: ThinkingParser = null.THINKING,
    tool_specs: Sequence[ToolSpec] = (),
    prompt_tail: str = "",
) -> Message:
    """Parse a whole answer into an assistant message, in the model's order."""
    machine = AnswerMachine(tools=tools, thinking=thinking, tool_specs=tool_specs, prompt_tail=prompt_tail)
    finished = Finished(reason="stop", usage=Usage(num_prompt_tokens=0))
    return collect([*machine.feed(text), *machine.finish(), finished]).message
