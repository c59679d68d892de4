"""Every command of the chat, once: key bindings, slash commands, the command palette and the help page are
made from here.
"""

from typing import NamedTuple


class Command(NamedTuple):
    """One thing that the chat can do.

    `action` is a method of the chat screen; `keys` are Textual's names, `shown_as` is theirs for people;
    `word` stands in the footer (empty: not there); `names` are slash commands, the first one is shown;
    `argument` is what may follow the name.
    """

    action: str
    keys: str
    shown_as: str
    word: str
    names: tuple[str, ...]
    help: str
    argument: str = ""


# In the order of the footer: what a narrow terminal cuts off is at the end.
COMMANDS = (
    Command("app.command_palette", "ctrl+p", "^P", "Commands", (), "Search all commands"),
    Command("help", "f1,ctrl+g", "^G", "Help", ("help", "?"), "Show keys and commands"),
    Command("stop", "escape", "Esc", "Stop", ("stop",), "Stop the answer and keep its text"),
    Command("app.quit", "ctrl+q", "^Q", "Quit", ("quit", "exit", "bye"), "Quit (also ^C twice, or ^D)"),
    Command("new", "ctrl+n", "^N", "New", ("new", "clear"), "Start a new chat; this one is kept"),
    Command("regenerate", "ctrl+r", "^R", "Retry", ("retry",), "Answer the last question again"),
    Command("copy", "ctrl+o", "^O", "Copy", ("copy",), "Copy the last answer"),
    Command("edit_last", "ctrl+l", "^L", "Edit", ("edit",), "Edit the last question and send it again"),
    Command("find", "ctrl+f", "^F", "Find", ("find",), "Find text in this chat"),
    Command("models", "f4", "F4", "", ("model", "models"), "Choose another model", "[NAME]"),
    Command("settings", "f2", "F2", "", ("settings", "set"), "System prompt, sampling, demo tools"),
    Command("sessions", "f3", "F3", "", ("chats",), "Search, open or delete earlier chats"),
    Command("attach", "f8", "F8", "", ("image",), "Attach an image to the next question", "[FILE]"),
    Command("export", "ctrl+s", "^S", "", ("export",), "Save this chat to a file", "[FILE]"),
    Command("monitor", "f5", "F5", "", ("monitor",), "Monitor speed, queue, cache and requests"),
    Command("theme", "ctrl+t", "^T", "", ("theme",), "Choose a color theme", "[NAME]"),
)

SCROLL_KEYS = (
    ("pageup", "scroll(-1)"),
    ("pagedown", "scroll(1)"),
    ("ctrl+end", "follow"),
    ("ctrl+c", "interrupt"),
)

INPUT_KEYS = (
    ("Enter", "Send"),
    ("^J, Option-Enter", "New line (also \\ before Enter, or Shift-Enter)"),
    ("Up, Down", "Earlier and later questions; the draft is kept"),
    ("Tab", "Focus thoughts; Enter expands or collapses them"),
    ("PgUp, PgDn, ^End", "Scroll; at the end, follow the answer again"),
    ("^C", "Stop the answer; twice: quit"),
    ("^Z", "Suspend; fg in the shell resumes"),
    ("^_", "Undo in the input"),
)
