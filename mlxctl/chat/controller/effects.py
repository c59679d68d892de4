"""What the commands of a chat ask of a front end. Pure.

Each names its result, if it has one. A front end ignores what it cannot show.
"""

import asyncio
from collections.abc import Awaitable, Callable, Generator
from functools import partial
from typing import Any, Literal, TypeVar

from msgspec import Struct

from mlxctl.chat.conversation import ChatEntry, ChatMessage, ChatOptions
from mlxctl.ir.errors import MlxctlError

Kind = Literal["hint", "warning", "error"]
"""How a text of the program looks."""


class Effect(Struct, frozen=True):
    """Something that a command wants done."""


class Notify(Effect, frozen=True):
    """Tell something for a moment."""

    text: str
    level: Literal["information", "warning", "error"] = "information"


class Write(Effect, frozen=True):
    """Write a text below the messages."""

    text: str
    kind: Kind = "hint"


class Announce(Effect, frozen=True):
    """Write about the model; `replaces` the last such text."""

    text: str
    kind: Kind = "hint"
    replaces: bool = False


class Confirm(Effect, frozen=True):
    """Ask whether to go on. Result: bool."""

    title: str
    text: str


class ChooseModel(Effect, frozen=True):
    """Let the user choose a model. Result: its name, or None."""

    current: str


class ChooseChat(Effect, frozen=True):
    """Let the user choose a saved chat. Result: SavedChat, or None."""


class GoToSidebar(Effect, frozen=True):
    """Go to the list of chats, or hide it. Result: bool, room."""


class EditOptions(Effect, frozen=True):
    """Let the user change the options. Result: ChatOptions, or None."""

    options: ChatOptions
    tools_note: str


class AskPath(Effect, frozen=True):
    """Ask for a file. Result: Path, or None.

    `proposal` may have the fields of `strftime`.
    """

    title: str
    hint: str
    proposal: str = ""


Part = Literal["help", "find", "monitor", "theme", "editor", "quit"]


class Open(Effect, frozen=True):
    """Open a part of the front end."""

    name: Part


class SetTheme(Effect, frozen=True):
    """Use the color theme of this name."""

    name: str


class ShowStatistics(Effect, frozen=True):
    """Show or hide the statistics of answers, also in later chats."""

    is_shown: bool


class RememberOptions(Effect, frozen=True):
    """Keep the sampling values for later chats."""

    options: ChatOptions


class Copy(Effect, frozen=True):
    """Copy a text to the clipboard. Result: the means, such as `pbcopy`."""

    text: str


class Select(Effect, frozen=True):
    """Select a message; None ends the selection."""

    entry: ChatEntry | None


class ReadInput(Effect, frozen=True):
    """Read the input. Result: its text."""


class SetInput(Effect, frozen=True):
    """Replace the text of the input."""

    text: str


class Restore(Effect, frozen=True):
    """Put a text back into the input, before what was typed since."""

    text: str


class AddToHistory(Effect, frozen=True):
    """Keep a text among those that were sent."""

    text: str


class Edit(Effect, frozen=True):
    """Let the user edit a question and send it again."""

    question: ChatEntry


class ShowChat(Effect, frozen=True):
    """Show another conversation: that of the state."""


class Drop(Effect, frozen=True):
    """Remove messages from the display."""

    entries: tuple[ChatEntry, ...]


class DropBelow(Effect, frozen=True):
    """Remove everything below a message from the display."""

    entry: ChatEntry


class Append(Effect, frozen=True):
    """Show messages below all others."""

    messages: tuple[ChatMessage, ...]


class Answer(Effect, frozen=True):
    """Answer the last question, which may be `asked` just now.

    Result: None for a complete answer, MlxctlError or Stopped.
    """

    asked: ChatMessage | None = None


class EndAnswer(Effect, frozen=True):
    """Complete the answer on the display.

    `text` explains an unusual end; `restored` is the former answer, if it is shown again.
    """

    text: str = ""
    kind: Kind = "warning"
    restored: tuple[ChatMessage, ...] = ()


class Stop(Effect, frozen=True):
    """Stop what is generated, and perhaps wait for its end."""

    waits: bool = False


class Call(Effect, frozen=True):
    """Await a function, which takes moments. Result: its own."""

    function: Callable[[], Awaitable[Any]]


def in_thread(function: Callable[..., Any], *arguments: Any, **options: Any) -> Call:
    """Call a function that reads or writes files."""
    return Call(partial(asyncio.to_thread, function, *arguments, **options))


class CallLong(Effect, frozen=True):
    """Await a function of the backend. Result: its own, or MlxctlError.

    `state` says what happens. The user may stop it if it `can_stop`, with the result Stopped.
    """

    function: Callable[[], Awaitable[Any]]
    state: str
    can_stop: bool = False


class Stopped(Struct, frozen=True):
    """The user stopped the model."""


End = MlxctlError | Stopped | None
"""How an answer ended; None: it is complete."""

Result = TypeVar("Result")
Steps = Generator[Effect, Any, Result]
"""A part of a command, and what it returns."""

Effects = Steps[None]
"""A whole command."""
