"""What a parser declares: its markers, and how the body of a block becomes tool calls.

The machine does the rest.

A new tool parser is one module with one `ToolParser` value, one row in the registry and one file of
transcripts. Its reader is one of the grammars that formats share, or one of its own:

    json_calls      objects with a name and arguments     {"name": "f", "arguments": {"a": 1}}
    headed_json     a name in a head, then arguments      f[ARGS]{"a": 1}
    tagged_calls    a tag for each argument               <function=f><parameter=a>1</parameter></function>
    python_calls    calls as Python writes them           [f(a=1)]
    brace_calls     bare keys in braces                   call:f{a:1}
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from mlxctl.ir import JsonNotation, Notation
from mlxctl.parsers.schemas import ToolSchemas

WHITESPACE = " \t\r\n"
_JSON = JsonNotation()


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted:
    """A call is certain and its name known; the text read so far has become part of it."""

    name: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallArguments:
    """More of the arguments' JSON text of the call that started last."""

    json: str


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEnded:
    """The call is over; it `is_complete` when its arguments are a whole JSON object."""

    is_complete: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Punctuation:
    """What was read since the last decision holds calls together; it is dropped."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyEnded:
    """The rest of the text is no longer this body's; what was read since the last decision is dropped,
    trailing blanks excepted.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRejected:
    """This is no call after all: what was read since the last decision, the opening marker included, is plain
    text.
    """


Signal = CallStarted | CallArguments | CallEnded | Punctuation | BodyEnded | BodyRejected


class BodyReader(Protocol):
    """Reads one block's body as it comes; a fresh one per block. Never raises, whatever it reads."""

    def read(self, text: str, start: int) -> tuple[int, Sequence[Signal]]:
        """Read `text` from `start` up to the next decision; return where it stopped and what was decided.

        No signals means that nothing is certain yet: what was not read comes again, in front of more text.
        """
        ...

    def finish(self, rest: str) -> Sequence[Signal]:
        """The stream is over in the middle of the body, after the unread `rest`: return the last decisions.

        The last of them is BodyEnded or BodyRejected.
        """
        ...


def force_nothing(_name: str | None) -> None:
    """The forced prefix of a format that cannot be forced."""
    return


@dataclass(frozen=True, slots=True, kw_only=True)
class Opening:
    """How a body began: by which marker ("" for a call without one), and which tools are on offer."""

    marker: str
    tools: ToolSchemas


@dataclass(frozen=True, slots=True, kw_only=True)
class Closing:
    """How a call goes on whose forced prefix has this `begin`, and ends with `behind`: arguments in their
    notation, then `text`.

    Where a block holds several calls, `joint` stands between them, and `block` is how it begins and ends,
    itself a part of the forced prefix and of `text`. `counter` is what stands around the number of a call,
    which is 0 in the forced prefix.
    """

    begin: str = ""
    behind: str
    text: str
    notation: Notation = _JSON
    joint: str | None = None
    block: tuple[str, str] = ("", "")
    counter: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolParser:
    """One format of tool calls. No opener means that it has no calls at all.

    `other_openers` and `other_closers` are markers that do the same; `bare_openers` are characters that open
    a body where nothing else was said before them, and belong to it. `inner_markers` are markers inside a
    body: only its reader looks at them.

    `forced_prefix(name)` is the text that, put at the end of a prompt, forces a call (of tool `name`, or of
    any for None); None where the format cannot be forced. `dialects` are prefixes of models that write the
    format in another way. `arguments_opening` is how arguments that are not empty go on behind
    `forced_prefix` of a named tool: where a tokenizer has a token across that seam, the prompt takes it in.

    `closings` say how a call goes on behind its forced prefix, by how that ends. `separator` is what stands
    between two whole blocks; None where a second one looks different from the first.
    """

    id: str
    opener: str = ""
    closer: str = ""
    open_body: Callable[[Opening], BodyReader] | None = None
    other_openers: tuple[str, ...] = ()
    other_closers: tuple[str, ...] = ()
    bare_openers: str = ""
    inner_markers: tuple[str, ...] = ()
    forced_prefix: Callable[[str | None], str | None] = force_nothing
    dialects: tuple[Callable[[str | None], str | None], ...] = ()
    arguments_opening: str = ""
    closings: tuple[Closing, ...] = ()
    separator: str | None = None

    def closing_behind(self, prefix: str) -> Closing | None:
        """How the call that a forced `prefix` begins goes on; None where there are no such calls."""
        fits = (
            closing
            for closing in self.closings
            if prefix.startswith(closing.begin) and prefix.endswith(closing.behind)
        )
        return next(fits, None)

    @property
    def openers(self) -> frozenset[str]:
        """All markers that open a body."""
        return frozenset(filter(None, (self.opener, *self.other_openers)))

    @property
    def closers(self) -> frozenset[str]:
        """All markers that are dropped behind a body."""
        return frozenset(filter(None, (self.closer, *self.other_closers)))

    @property
    def markers(self) -> frozenset[str]:
        """All that the format is held together by: a special token among them has to be read."""
        return self.openers | self.closers | frozenset(self.inner_markers)


def combined(first: ToolParser, others: Sequence[ToolParser]) -> ToolParser:
    """Return the first parser, which reads what begins with a marker of the others as they do.

    Calls are forced in its own way.
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
    """One way to mark thinking. No opener means that the model does not think aloud.

    `trims` are characters dropped inside both markers and behind the closing one. `wrappers` are markers that
    say nothing but what the text around them is, such as the head of the message that is the answer; they are
    dropped.

    `other_openers` and `other_closers` are markers that do the same as the first ones; a closer may be the
    head of what follows. With `ends_at_calls`, a call's marker is the head of a message, which no thought
    quotes. `asides` begin messages that are neither for the user nor, where they do not turn out to be one, a
    call: they are dropped. `prompt_ends` are what a prompt may end with that the answer's first marker goes
    on from. `signs` tell a model that writes the format where its opener and closer are not enough to.

    `closed_block` is a whole empty block, `closing` ends an open one: either, put at the end of a prompt,
    makes the model answer without thinking. `supports_toggle` says that models of the format are made to be
    switched so; where they are not, an empty block only makes thinking less likely.
    """

    id: str
    opener: str = ""
    closer: str = ""
    trims: str = ""
    wrappers: tuple[str, ...] = ()
    other_openers: tuple[str, ...] = ()
    other_closers: tuple[str, ...] = ()
    ends_at_calls: bool = False
    dropped_openers: tuple[str, ...] = ()
    prompt_ends: tuple[str, ...] = ()
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
    def markers(self) -> frozenset[str]:
        """All that the format is held together by: a special token among them has to be read."""
        return self.openers | self.closers | frozenset((*self.wrappers, *self.dropped_openers))
