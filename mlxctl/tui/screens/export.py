"""^S: where the conversation is written."""

from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static


class ExportScreen(ModalScreen[Path | None]):
    """Gives back the path, or None."""

    DEFAULT_CSS = """
    ExportScreen { align: center middle;
        & Vertical { width: 70; max-width: 96%; height: auto; padding: 0 2; border: round $primary; background: $surface;
            border-title-color: $primary; }
        & Static { color: $text-muted; } }
    """
    BINDINGS = [Binding("escape", "cancel", "Cancel")]  # noqa: RUF012 -- Textual declares it so

    def __init__(self, proposal: str) -> None:
        super().__init__()
        self._proposal = proposal

    def compose(self) -> ComposeResult:
        """One line."""
        with Vertical() as box:
            box.border_title = "Export (Enter writes, Esc cancels)"
            yield Input(self._proposal, id="path", compact=True)
            yield Static("The ending decides: .md to read, .json with messages in OpenAI's words.")

    @on(Input.Submitted)
    def write(self, submitted: Input.Submitted) -> None:
        """Give the path back."""
        self.dismiss(Path(submitted.value.strip()).expanduser() if submitted.value.strip() else None)

    def action_cancel(self) -> None:
        """Give nothing back."""
        self.dismiss(None)
