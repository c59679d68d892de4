"""F1: every key, and what the marks of the status line mean."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from mlxctl.tui.keys import COMPOSER_KEYS, SCREEN_KEYS

_STATUS = """\
tok/s    tokens a second; ~ while they are counted in pieces
first    time from the question to the first token
cached   share of the prompt that had been read before
context  tokens of prompt and answer, of what the model holds"""


class HelpScreen(ModalScreen[None]):
    """Closes with Esc or F1."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle;
        & VerticalScroll { width: 78; max-width: 96%; height: auto; max-height: 100%; padding: 0 2; border: round $primary;
            background: $surface; border-title-color: $primary; } }
    """
    BINDINGS = [Binding("escape,f1,q,enter", "dismiss", "Close")]  # noqa: RUF012 -- Textual declares it so

    def compose(self) -> ComposeResult:
        """One text that scrolls."""
        keys = [*COMPOSER_KEYS, *((key.shown_as, key.help) for key in SCREEN_KEYS)]
        lines = "\n".join(f"{shown:<16}{text}" for shown, text in keys)
        with VerticalScroll() as box:
            box.border_title = "Keys (Esc closes)"
            yield Static(f"{lines}\n\n{_STATUS}", markup=False)

    async def action_dismiss(self, result: None = None) -> None:
        """Close."""
        self.dismiss(result)
