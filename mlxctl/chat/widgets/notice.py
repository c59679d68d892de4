"""A message of the program: a hint, a warning, or an error."""

from textual.widgets import Static

from mlxctl.chat.controller.effects import Kind
from mlxctl.terminal_text import escape_control_characters


class Notice(Static):
    """Plain colored text; errors start with "Error:" for screens without color."""

    DEFAULT_CSS = """
    Notice { padding: 0 1 0 2; margin: 0 0 1 0; color: $text-muted;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; } }
    """

    def __init__(self, text: str, *, kind: Kind = "hint") -> None:
        super().__init__(_format_notice(text, kind), markup=False, classes=f"-{kind}")

    def set_message(self, text: str, *, kind: Kind = "hint") -> None:
        """Replace the message in its place."""
        self.set_classes(f"-{kind}")
        self.update(_format_notice(text, kind))


def _format_notice(text: str, kind: Kind) -> str:
    # May contain text of a server.
    return escape_control_characters(f"Error: {text}" if kind == "error" else text)
