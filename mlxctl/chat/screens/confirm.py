"""A question to confirm with Enter, or to decline with Escape."""

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Static

from mlxctl.terminal_text import escape_control_characters


class ConfirmScreen(ModalScreen[bool]):
    """Returns whether the user agreed."""

    DEFAULT_CSS = """
    ConfirmScreen { align: center middle;
        & > Vertical { width: 64; max-width: 96%; height: auto; max-height: 96%; padding: 0 2;
            border: round $primary;
            background: $surface; border-title-color: $primary; }
        & .hint { color: $text-muted; margin: 1 0 0 0; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("enter,y", "agree", "Yes"),
        Binding("escape,ctrl+c,n,q", "decline", "No"),
    ]

    def __init__(self, title: str, text: str) -> None:
        super().__init__()
        self._title = title
        self._text = text

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            yield Static(escape_control_characters(self._text), markup=False)
            yield Static("Enter: yes   Esc: no", classes="hint", markup=False)

    def on_key(self, event: events.Key) -> None:
        """Decline at any other letter: the user types a text."""
        if event.is_printable and event.key not in "yn":
            event.stop()
            self.dismiss(False)

    def action_agree(self) -> None:
        self.dismiss(True)

    def action_decline(self) -> None:
        self.dismiss(False)
