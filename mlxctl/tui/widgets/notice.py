"""A message of the program, not of the model: a hint, a warning, or an error and what to do about it."""

from typing import Literal

from textual.widgets import Static

from mlxctl.tui.control_characters import visible_controls

Kind = Literal["hint", "warning", "error"]


class Notice(Static):
    """Plain text in a color of its own; an error says so in front, for screens without color."""

    DEFAULT_CSS = """
    Notice { padding: 0 1 0 2; margin: 0 0 1 0; color: $text-muted;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; } }
    """

    def __init__(self, text: str, *, kind: Kind = "hint") -> None:
        super().__init__(_worded(text, kind), markup=False, classes=f"-{kind}")

    def say(self, text: str, *, kind: Kind = "hint") -> None:
        """Replace the message where it stands."""
        self.set_classes(f"-{kind}")
        self.update(_worded(text, kind))


def _worded(text: str, kind: Kind) -> str:
    # A server's own words may be in it.
    return visible_controls(f"Error: {text}" if kind == "error" else text)
