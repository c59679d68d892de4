"""What a parser declares: its markers, and how the body of a block becomes tool calls. The machine does the rest.

A new tool parser is one module with one `ToolParser` value, one row in the registry and one file of transcripts. Its
reader either decides while the body streams (`hermes_json`) or waits for the whole body (`WholeBodyReader`).
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

WHITESPACE = " \t\r\n"


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
    """The rest of the text is no longer this body's; what was read since the last decision is dropped, trailing blanks excepted."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BodyRejected:
    """This is no call after all: what was read since the last decision, the opening marker included, is plain text."""


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
class ToolParser:
    """One format of tool calls. No opener means that it has no calls at all.

    `forced_prefix(name)` is the text that, put at the end of a prompt, forces a call (of tool `name`, or of any for
    None); None where the format cannot be forced. `arguments_opening` is how arguments that are not empty go on behind the
    prefix of a named tool: where a tokenizer has a token across that seam, the prompt takes it in.
    """

    id: str
    opener: str = ""
    closer: str = ""
    open_body: Callable[[], BodyReader] | None = None
    forced_prefix: Callable[[str | None], str | None] = force_nothing
    arguments_opening: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingParser:
    """One way to mark thinking. No opener means that the model does not think aloud.

    `trims` are characters dropped inside both markers and behind the closing one. `closed_block` is a whole empty block,
    `closing` ends an open one: either, put at the end of a prompt, makes the model answer without thinking.
    """

    id: str
    opener: str = ""
    closer: str = ""
    trims: str = ""
    closed_block: str = ""
    closing: str = ""
