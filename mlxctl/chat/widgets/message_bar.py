"""The bar of a selected message: statistics and actions."""

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.widgets import Static

from mlxctl.chat.attachments import describe_attached
from mlxctl.chat.conversation import ChatEntry
from mlxctl.chat.messages import TextTyped

# Key, slash command with the number of the message to come, label.
_ACTIONS = (
    ("c", "copy", "copy"),
    ("e", "edit", "edit question"),
    ("r", "retry", "retry"),
    ("f", "fork", "fork"),
    ("d", "delete", "delete"),
    ("x", "delete after", "delete after"),
)


class MessageBar(Static, can_focus=True):
    """Actions by key while the bar has the focus, or by click."""

    DEFAULT_CSS = """
    MessageBar { height: auto; padding: 0 1; background: $foreground 5%; display: none;
        link-style: none; link-style-hover: reverse; link-color: $text; link-background: transparent; }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("up,k", "screen.select_message(-1)", "Earlier"),
        Binding("down,j", "screen.select_message(1)", "Later"),
        Binding("home,g", "screen.select_message(-100000)", show=False),
        Binding("end,G", "screen.select_message(100000)", show=False),
        Binding("escape,q,enter", "screen.close_messages", "Close"),
        *(Binding(key, f"screen.on_message('{name}')", show=False) for key, name, _ in _ACTIONS),
    ]

    entry: ChatEntry | None = None

    def open(self, entry: ChatEntry, *, num_entries: int) -> None:
        """Show the bar for a message."""
        self.entry = entry
        self.display = True
        links = "  ".join(
            f"[@click=screen.on_message('{name}')][b]{key}[/b] {label}[/]" for key, name, label in _ACTIONS
        )
        about = Content(f"Message {entry.number} of {num_entries}, {describe_entry(entry)}")
        links += "  [@click=screen.close_messages][b]Esc[/b] close[/]"
        self.update(Content("\n").join([about, Content.from_markup(links)]))

    def on_key(self, event: events.Key) -> None:
        """Take other letters for the input, which the user means then."""
        if event.is_printable and event.character and not self._bindings.key_to_bindings.get(event.key):
            event.stop()
            self.post_message(TextTyped(event.character))

    def close(self) -> None:
        self.entry = None
        self.display = False


def describe_entry(entry: ChatEntry) -> str:
    """Return kind and statistics of a message on one line."""
    if entry.is_question:
        return ", ".join(filter(None, ("your question", describe_attached(entry.attachments))))
    parts = ["answer"]
    if seconds := sum(item.thinking_seconds or 0.0 for item in entry.messages):
        parts.append(f"thought for {seconds:.1f} s")
    if entry.num_calls:
        parts.append(f"{entry.num_calls} tool call{'s' * (entry.num_calls != 1)}")
    if entry.messages[-1].is_partial:
        parts.append("incomplete")
    line = "" if entry.statistics is None else entry.statistics.line()
    return ", ".join(parts) + (f": {line}" if line else "")
