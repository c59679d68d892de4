"""Help (F1, ^G, /help): keys, commands and the status line."""

from collections.abc import Iterable, Sequence

from rich.table import Table
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from mlxctl.chat.chat_commands import COMMANDS, INPUT_KEYS, LITERAL

_STATUS = (
    ("tok/s", "tokens per second (~ estimated while streaming)"),
    ("first", "time to first token"),
    ("cached", "share of the prompt found in the prefix cache"),
    ("context", "tokens used / context window"),
)


class HelpScreen(ModalScreen[None]):
    """Dialog with all keys and commands."""

    DEFAULT_CSS = """
    HelpScreen { align: center middle;
        & VerticalScroll { width: 78; max-width: 96%; height: auto; max-height: 100%; padding: 0 2;
            border: round $primary;
            background: $surface; border-title-color: $primary; } }
    """
    BINDINGS = [Binding("escape,ctrl+c,f1,ctrl+g,q,enter", "dismiss", "Close")]  # noqa: RUF012 -- Textual API

    def compose(self) -> ComposeResult:
        commands = [
            (
                "F1, ^G" if command.action == "help" else command.display_keys,
                f"/{command.names[0]} {command.argument}".rstrip() if command.names else "",
                command.help,
            )
            for command in COMMANDS
        ]
        with VerticalScroll() as box:
            box.border_title = "Help (Esc closes)"
            yield Static(_columns(commands, (8, 18)))
            yield Static(f"{LITERAL}\n", markup=False)
            yield Static(_columns(INPUT_KEYS, (18,)))
            yield Static("")
            yield Static(_columns(_STATUS, (9,)))

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss(result)


def _columns(rows: Iterable[Sequence[str]], widths: Sequence[int]) -> Table:
    """Return a table whose last column takes the rest."""
    table = Table.grid(expand=True)
    for width in widths:
        table.add_column(width=width)
    table.add_column(ratio=1)
    for row in rows:
        table.add_row(*map(Text, row))
    return table
