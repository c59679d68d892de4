"""Help (F1, ^G, /help): keys, commands and the status line."""

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import VerticalScroll
from textual.screen import ModalScreen
from textual.widgets import Static

from mlxctl.tui.chat_commands import COMMANDS, INPUT_KEYS

_STATUS = """\
tok/s    tokens per second (~ estimated while streaming)
first    time to first token
cached   share of the prompt found in the prefix cache
context  tokens used / context window"""


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
        commands = []
        for command in COMMANDS:
            name = f"/{command.names[0]} {command.argument}".rstrip() if command.names else ""
            key = "F1, ^G" if command.action == "help" else command.display_keys
            commands.append(f"{key:<8}{name:<18}{command.help}")
        keys = [f"{shown:<18}{text}" for shown, text in INPUT_KEYS]
        with VerticalScroll() as box:
            box.border_title = "Help (Esc closes)"
            literal = "A message that starts with a slash: type // instead."
            yield Static("\n".join([*commands, literal, "", *keys, "", _STATUS]), markup=False)

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss(result)
