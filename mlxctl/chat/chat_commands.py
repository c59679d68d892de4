"""The chat's commands: keys, slash names and help texts. Pure."""

import re
from dataclasses import dataclass
from typing import NamedTuple


class ChatCommand(NamedTuple):
    """One command of the chat.

    `action` names it in the code; `keys` are Textual's key names, empty without a key, and
    `display_keys` their short form; `footer_label` is empty for commands that the footer omits; `names` are
    slash names, the first of which is shown; `argument` describes what may follow the name. One that
    `needs_screen` is not in the plain chat.
    """

    action: str
    keys: str
    display_keys: str
    footer_label: str
    names: tuple[str, ...]
    help: str
    argument: str = ""
    needs_screen: bool = False

    @property
    def screen_action(self) -> str:
        """The action of the chat screen that runs it."""
        is_app = self.action.startswith("app.")
        return self.action if is_app else f"command('{self.action}')"


# In footer order: a narrow terminal cuts off the end.
COMMANDS = (
    ChatCommand("app.command_palette", "ctrl+p", "^P", "Commands", (), "Search all commands"),
    ChatCommand("help", "f1,ctrl+g", "^G", "Help", ("help", "?"), "Show keys and commands"),
    ChatCommand("stop", "escape", "Esc", "Stop", ("stop",), "Stop the answer and keep its text", "", True),
    ChatCommand("app.quit", "ctrl+q", "^Q", "Quit", ("quit", "exit", "bye"), "Quit (also ^C twice, or ^D)"),
    ChatCommand("new", "ctrl+n", "^N", "New", ("new", "clear"), "Start a new chat; this one is kept"),
    ChatCommand("regenerate", "ctrl+r", "^R", "Retry", ("retry",), "Answer the last question again", "[N]"),
    ChatCommand(
        "copy", "ctrl+o", "^O", "Copy", ("copy",), "Copy the last answer, or its code", "[N|code]", True
    ),
    ChatCommand(
        "edit_last", "ctrl+l", "^L", "Edit", ("edit",), "Edit the last question and send it again", "[N]"
    ),
    ChatCommand("find", "ctrl+f", "^F", "Find", ("find",), "Find text in this chat", "", True),
    ChatCommand(
        "sidebar",
        "f9",
        "F9",
        "Chats",
        ("sidebar",),
        "Go to the list of chats or hide it (140 columns)",
        needs_screen=True,
    ),
    ChatCommand("models", "f4", "F4", "", ("model", "models"), "Choose another model", "[NAME]"),
    ChatCommand(
        "settings", "f2", "F2", "", ("set", "settings"), "System prompt, sampling, tools", "[NAME VALUE]"
    ),
    ChatCommand("system", "", "", "", ("system",), "Set the system prompt", "[TEXT]"),
    ChatCommand(
        "sessions",
        "f3",
        "F3",
        "",
        ("chats", "load"),
        "Search, open or delete chats (also /load)",
        "[ID|FILE]",
    ),
    ChatCommand("messages", "f7", "F7", "", ("messages",), "Select a message: copy, edit, fork …", "[N]"),
    ChatCommand("fork", "", "", "", ("fork",), "Continue a copy; the original is kept", "[N]"),
    ChatCommand("delete", "", "", "", ("delete",), "Delete message N, or all after it", "[after] N"),
    ChatCommand("compact", "", "", "", ("compact",), "Replace the older messages by a summary"),
    ChatCommand("undo", "", "", "", ("undo",), "Delete the last question and its answer"),
    ChatCommand("tools", "", "", "", ("tools",), "List the tools, or offer them", "[on|off]"),
    ChatCommand("speak", "", "", "", ("speak",), "Read an answer aloud, by default the last", "[N]"),
    ChatCommand("statistics", "", "", "", ("stats",), "Show or hide statistics of answers"),
    ChatCommand("editor", "f6", "F6", "", ("editor",), "Write the question in $EDITOR"),
    ChatCommand(
        "attach",
        "f8",
        "F8",
        "",
        ("attach", "image"),
        "Attach an image, video or PDF to the next question",
        "[FILE]",
    ),
    ChatCommand("export", "ctrl+s", "^S", "", ("save", "export"), "Save this chat to a file", "[FILE]"),
    ChatCommand(
        "monitor", "f5", "F5", "", ("monitor",), "Monitor speed, queue, cache and requests", "", True
    ),
    ChatCommand("theme", "ctrl+t", "^T", "", ("theme",), "Choose a color theme", "[NAME]", True),
)

SCROLL_KEYS = (
    ("pageup", "scroll(-1)"),
    ("pagedown", "scroll(1)"),
    ("ctrl+end", "follow"),
    ("ctrl+c", "interrupt"),
    ("escape", "go_back"),
)

INPUT_KEYS = (
    ("Enter", "Send"),
    ("^J, Option-Enter", "New line (also \\ before Enter, or Shift-Enter)"),
    ("Up, Down", "Earlier and later questions; the draft is kept"),
    ("/, then arrows", "Choose a command; Enter runs it, Tab completes it"),
    ("@path", "Send this file too; Tab completes paths and commands"),
    ("Enter, answering", "Queue the question; Up takes the last one back"),
    ("Tab", "Focus thoughts; Enter expands or collapses them"),
    ("PgUp, PgDn, ^End", "Scroll; at the end, follow the answer again"),
    ("Esc twice, click", "Select a message; N is its number"),
    ("^C", "Stop the answer; twice: quit"),
    ("^Z", "Suspend; fg in the shell resumes"),
    ("^_", "Undo in the input"),
)


PLAIN_KEYS = (
    "Enter sends a line. A backslash at its end continues the question in the next line.",
    "Ctrl-C stops an answer, at the prompt it quits. Ctrl-D quits.",
    "@path sends a file with the question.",
)
LITERAL = "A message that starts with a slash: type // instead."
_NAME_COLUMNS = 20

# `/usr/bin/x` and `/* x */` are text; only a lone word can be a command.
_WORD = re.compile(r"/(\?|[A-Za-z][\w-]*)(?!\S)")


@dataclass(frozen=True, slots=True, kw_only=True)
class SlashCommand:
    """A command, the name that was typed, and the text after it."""

    command: ChatCommand
    name: str
    argument: str


@dataclass(frozen=True, slots=True, kw_only=True)
class UnknownCommand:
    """Input that looks like a command but is none; `message` explains it."""

    message: str


def read_input(text: str) -> str | SlashCommand | UnknownCommand:
    """Return the question, or the command; `//word` is the question `/word`."""
    if text.startswith("//") and _WORD.match(text, 1):
        return text[1:]
    match = _WORD.match(text)
    if match is None:
        return text
    command = find_command(match[1])
    if command is None:
        return UnknownCommand(
            message=f"Unknown command /{match[1]}. /help lists the commands; //{match[1]} sends the text."
        )
    argument = text[match.end() :].strip()
    if argument and not command.argument:
        return UnknownCommand(message=f"/{match[1]} takes no argument. //{match[1]} sends the text.")
    return SlashCommand(command=command, name=match[1].lower(), argument=argument)


def find_command(name: str) -> ChatCommand | None:
    """Return the command with this slash name."""
    return next((command for command in COMMANDS if name.lower() in command.names), None)


def matching_commands(text: str) -> list[ChatCommand]:
    """Return the commands whose shown name starts with the text `/...`."""
    if not re.fullmatch(r"/[\w?-]*", text):
        return []
    return [
        command for command in COMMANDS if command.names and f"/{command.names[0]}".startswith(text.lower())
    ]


def completions(text: str) -> list[str]:
    """Return the slash commands that start with `text`, without aliases."""
    return [f"/{command.names[0]}" for command in matching_commands(text)]


def plain_help() -> str:
    """Return the help of the plain chat: its keys, and the commands."""
    shown = [command for command in COMMANDS if command.names and not command.needs_screen]
    lines = [
        f"/{command.names[0]} {command.argument}".ljust(_NAME_COLUMNS) + command.help for command in shown
    ]
    return "\n".join([*PLAIN_KEYS, *lines, LITERAL])
