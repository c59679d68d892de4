"""What a format declares: its markers, and the reader of a call.

A tool-call format is one module with one ToolParser value, one row in the registry and one file of
transcripts. Its reader is one of the shared ones, or its own:

    json_calls      objects with a name and arguments      {"name": "f", "arguments": {"a": 1}}
    headed_json     a header with the name, then arguments f[ARGS]{"a": 1}
    tagged_calls    a tag for each argument                <function=f><parameter=a>1</parameter></function>
    python_calls    Python calls                           [f(a=1)]
    brace_calls     unquoted keys in braces                call:f{a:1}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mlxctl.formats.parsers.markers import is_control_token
from mlxctl.formats.parsers.schemas import ToolSchemas
from mlxctl.ir import JsonNotation, Notation

WHITESPACE = " \t\r\n"
_JSON = JsonNotation()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A call has started; the text read belongs to it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """More JSON text of the current call's arguments."""

    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """The current call ended; complete if its arguments are a JSON object.

    `lacks_only_end` is true where the model only forgot to close the arguments.
    """

    is_complete: bool
    lacks_only_end: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuation:
    """The text read since the last decision separates calls; it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyEnded:
    """The block of calls has ended.

    The text read since the last decision is dropped, except white space at its end.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRejected:
    """The block is no call.

    The text read since the last decision, with the opening marker, is visible text. `begun_call` is the name
    of a call whose head the answer ends in: it counts unless the answer was cut off.
    """

    begun_call: str = ""


Signal = CallStarted | CallArguments | CallEnded | Punctuation | BodyEnded | BodyRejected


class BodyReader(Protocol):
    """Reads one block. One instance per block; never raises."""

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read `text` from `start` up to the next decision.

        Returns where it stopped and what was decided. Without signals nothing is certain yet: unread text is
        passed again, followed by more.
        """
        ...

    def finish(self, rest: str) -> Sequence[Signal]:
        """Return the last decisions at the end of the stream.

        `rest` is the unread text. The last signal is BodyEnded or BodyRejected.
        """
        ...


def no_bare_calls(_name: str) -> tuple[str, ...]:
    """The calls without a marker of a format that has none."""
    return ()


def force_nothing(_name: str | None) -> None:
    """The forced prefix of a format that cannot be forced."""
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """The start of a block.

    `marker` is "" for a call without one; `tools` are the available tools.
    """

    marker: str
    tools: ToolSchemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a call continues after its forced prefix.

    It applies to prefixes that begin with `prefix_start` and end with `prefix_end`. The arguments follow in
    their `notation`, then `call_end`. Where a block holds several calls, `call_separator` stands between
    them, and `block` is the block's start and end, which are part of the forced prefix and of `call_end`.
    `counter` is the text around a call's number, which is 0 in the forced prefix.
    """

    prefix_start: str = ""
    prefix_end: str
    call_end: str
    notation: Notation = _JSON
    call_separator: str | None = None
    block: tuple[str, str] = ("", "")
    counter: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParser:
    """One format of tool calls. Without an opener it has no calls.

    `other_openers` and `other_closers` are alternative markers; `bare_openers` are characters that open a
    block at the start of an answer, and belong to it; `bare_calls(name)` are beginnings of a tool's calls
    that do so anywhere. `space_before` is white space that templates write before a block: it is part of
    neither text nor thinking. `inner_markers` are markers inside a block: only its reader uses them.

    `forced_prefix(name)` is the text that, at the end of a prompt, forces a call (of tool `name`, or of any
    for None); None where the format cannot be forced. `dialects` are the forced prefixes of models that write
    the format differently. `arguments_opening` is how arguments that are not empty continue after
    `forced_prefix` of a named tool: where a tokenizer has a token across that position, the prompt includes
    it. `result_text` is a tool result in a user message, for templates without tool results; `{content}` is
    its text.

    `closings` describe how a call continues after its forced prefix. `separator` stands between two whole
    blocks; None where a second block differs from the first. `combined_ids` are the other formats of a
    combined parser.
    """

    id: str
    opener: str = ""
    closer: str = ""
    open_body: Callable[[Opening], BodyReader] | None = None
    other_openers: tuple[str, ...] = ()
    other_closers: tuple[str, ...] = ()
    bare_openers: str = ""
    bare_calls: Callable[[str], tuple[str, ...]] = no_bare_calls
    space_before: str = ""
    inner_markers: tuple[str, ...] = ()
    forced_prefix: Callable[[str | None], str | None] = force_nothing
    dialects: tuple[Callable[[str | None], str | None], ...] = ()
    arguments_opening: str = ""
    result_text: str = "<tool_response>\n{content}\n</tool_response>"
    closings: tuple[Closing, ...] = ()
    separator: str | None = None
    combined_ids: tuple[str, ...] = ()

    def closing_after(self, prefix: str) -> Closing | None:
        """Return how a call continues after a forced `prefix`, None if unknown."""
        matching = (
            closing
            for closing in self.closings
            if prefix.startswith(closing.prefix_start) and prefix.endswith(closing.prefix_end)
        )
        return next(matching, None)

    @property
    def openers(self) -> frozenset[str]:
        """All markers that open a block."""
        return frozenset(filter(None, (self.opener, *self.other_openers)))

    @property
    def closers(self) -> frozenset[str]:
        """All markers that are dropped after a block."""
        return frozenset(filter(None, (self.closer, *self.other_closers)))

    @property
    def markers(self) -> frozenset[str]:
        """All markers: special tokens among them have to be decoded."""
        return self.openers | self.closers | frozenset(self.inner_markers)

    @property
    def control_tokens(self) -> frozenset[str]:
        """The markers that never are text."""
        return frozenset(filter(is_control_token, self.markers))


def combined(first: ToolParser, others: Sequence[ToolParser]) -> ToolParser:
    """Return the first parser, extended by the formats of the others.

    A marker that several have is the first's. Calls are forced in the first format.
    """
    readers = {opener: parser for parser in reversed((first, *others)) for opener in parser.openers}
    if readers.keys() == first.openers:
        return first

    def open_body(opening: Opening) -> BodyReader:
        reader = readers.get(opening.marker, first).open_body
        assert reader is not None, "a parser with markers has a reader"
        return reader(opening)

    return replace(
        first,
        combined_ids=tuple(parser.id for parser in others),
        open_body=open_body,
        other_openers=tuple(sorted(readers.keys() - {first.opener})),
        other_closers=tuple(
            sorted(first.closers.union(*(parser.closers for parser in others)) - {first.closer})
        ),
        inner_markers=tuple(
            sorted({*first.inner_markers, *(mark for parser in others for mark in parser.inner_markers)})
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingParser:
    """One format of thinking. Without an opener the model writes none.

    `trims` are characters dropped inside both markers and after the closing one. `wrappers` are markers
    without content of their own, such as the header of the answer's message; they are dropped, as are
    `stray_markers`, which models write by mistake.

    `other_openers` and `other_closers` are alternative markers; a closer may be the header of what follows.
    `bare_opener` is how models begin an answer whose first marker they forget. With `has_messages`, an answer
    is a sequence of messages: the header of the next one ends a thought, which no thought quotes.
    `message_break` joins two texts or thoughts in a row. `dropped_openers` begin headers of messages to
    recipients other than the user: they are dropped unless they are calls. Such a header ends with one of
    `header_ends`, or with a marker that begins content; without one it is text. `prompt_ends` are ends of
    prompts that the answer's first marker continues. `citation_tag` is the name of tags around cited text,
    which are dropped. `identifying_texts` identify the format in a template where opener and closer do not
    suffice.

    `closed_block` is a whole empty block, `closing` ends an open one: either, at the end of a prompt, makes
    the model answer without thinking. `supports_toggle` is true if models of the format are trained for that;
    otherwise an empty block only makes thinking less likely.
    """

    id: str
    opener: str = ""
    closer: str = ""
    trims: str = ""
    wrappers: tuple[str, ...] = ()
    stray_markers: tuple[str, ...] = ()
    other_openers: tuple[str, ...] = ()
    other_closers: tuple[str, ...] = ()
    bare_opener: str = ""
    has_messages: bool = False
    message_break: str = ""
    dropped_openers: tuple[str, ...] = ()
    header_ends: tuple[str, ...] = ()
    prompt_ends: tuple[str, ...] = ()
    citation_tag: str = ""
    identifying_texts: tuple[str, ...] = ()
    closed_block: str = ""
    closing: str = ""
    supports_toggle: bool = False

    @property
    def openers(self) -> frozenset[str]:
        """All markers that begin a thought."""
        return frozenset(filter(None, (self.opener, *self.other_openers)))

    @property
    def closers(self) -> frozenset[str]:
        """All markers that end a thought."""
        return frozenset(filter(None, (self.closer, *self.other_closers)))

    @property
    def headers(self) -> frozenset[str]:
        """All markers that begin a message, or its content."""
        return self.openers | frozenset((*self.wrappers, *self.dropped_openers))

    @property
    def markers(self) -> frozenset[str]:
        """All markers: special tokens among them have to be decoded."""
        return self.headers | self.closers | frozenset(self.stray_markers)
