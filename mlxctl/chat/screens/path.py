"""Dialog for a file path: an export (^S) or an image (F8)."""

from pathlib import Path

from textual import on
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Vertical
from textual.screen import ModalScreen
from textual.widgets import Input, Static

from mlxctl.chat.widgets.text_input import TextInput
from mlxctl.state.locations import expand_user


class PathScreen(ModalScreen[Path | None]):
    """Returns the path, or None."""

    DEFAULT_CSS = """
    PathScreen { align: center middle;
        & Vertical { width: 70; max-width: 96%; height: auto; padding: 0 2; border: round $primary;
            background: $surface;
            border-title-color: $primary; }
        & Static { color: $text-muted; } }
    """
    BINDINGS = [Binding("escape,ctrl+c", "cancel", "Cancel")]  # noqa: RUF012 -- Textual API

    def __init__(self, title: str, *, proposal: str = "", hint: str) -> None:
        super().__init__()
        self._title = title
        self._proposal = proposal
        self._hint = hint

    def compose(self) -> ComposeResult:
        with Vertical() as box:
            box.border_title = self._title
            yield TextInput(self._proposal, id="path", compact=True)
            yield Static(self._hint, markup=False)

    @on(Input.Submitted)
    def give(self, submitted: Input.Submitted) -> None:
        """Return the path; None for an empty line."""
        self.dismiss(expand_user(submitted.value.strip()) if submitted.value.strip() else None)

    def action_cancel(self) -> None:
        self.dismiss(None)
