"""A message of the program, not of the model: a hint, a warning, or an error and what to do about it."""

from typing import Literal

from textual.widgets import Static

from mlxctl.tui.terminal import escape_control_characters

Kind = Literal["hint", "warning", "error"]


class Notice(Static):
    """Plain text in a color of its own; an error says so in front, for screens without color."""

    DEFAULT_CSS = """
    Notice { padding: 0 1 0 2; margin: 0 0 1 0; color: $text-muted;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; } }
    """

    def __init__(self, text: str, *, kind: Kind = "hint") -> None:
        super().__init__(_format_notice(text, kind), markup=False, classes=f"-{kind}")

    def set_message(self, text: str, *, kind: Kind = "hint") -> None:
        """Replace the message where it stands."""
        self.set_classes(f"-{kind}")
        self.update(_format_notice(text, kind))


def _format_notice(text: str, kind: Kind) -> str:
    # A server's own words may be in it.
    return escape_control_characters(f"Error: {text}" if kind == "error" else text)
