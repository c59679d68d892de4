"""Every key, once: the bindings of the screen and the page behind F1 are made from here."""

from typing import NamedTuple


class Key(NamedTuple):
    """What a key does: its action on the chat screen, a word for the footer (empty: not shown there), a line for the help."""

    key: str
    shown_as: str
    action: str
    word: str
    help: str


SCREEN_KEYS = (
    Key("f1", "F1", "help", "Help", "This page"),
    Key("escape", "Esc", "stop", "Stop", "Stop the answer; what came is kept"),
    Key("f2", "F2", "settings", "Settings", "System prompt, sampling, thinking, demo tools"),
    Key("ctrl+r", "^R", "regenerate", "Again", "Answer the last question again"),
    Key("ctrl+l", "^L", "edit_last", "Edit", "Take the last question back, to edit and resend"),
    Key("ctrl+o", "^O", "copy", "Copy", "Copy the last answer"),
    Key("ctrl+s", "^S", "export", "", "Write the conversation to a file"),
    Key("ctrl+n", "^N", "new", "", "Begin a new conversation; the one before is kept"),
    Key("f3", "F3", "sessions", "Chats", "Earlier chats: search, go on, forget"),
    Key("f4", "F4", "models", "", "Take another model for the next question"),
    Key("f5", "F5", "monitor", "", "Watch speed, queue, cache and requests"),
    Key("f8", "F8", "attach", "", "Attach an image to the next question"),
    Key("ctrl+f", "^F", "find", "", "Find words in this conversation"),
    Key("ctrl+t", "^T", "theme", "", "Choose a theme"),
    Key("pageup", "PgUp", "scroll(-1)", "", "Scroll back"),
    Key("pagedown", "PgDn", "scroll(1)", "", "Scroll forward; at the end, follow again"),
    Key("ctrl+end", "^End", "follow", "", "Go to the end and follow the answer"),
    Key("ctrl+q", "^Q", "app.quit", "Quit", "Quit"),
)

COMPOSER_KEYS = (
    ("Enter", "Send"),
    ("^J, Shift-Enter", "New line"),
    ("Up, Down", "In the first and last line: earlier, later questions"),
    ("Tab", "To what folds; Enter folds and unfolds it"),
)
