"""A line that is said by the program, not by the model: a hint, or what went wrong and what to do."""

from typing import Literal

from textual.widgets import Static


class Notice(Static):
    """Plain words in a colour of their own; a word in front says the kind where there is no colour."""

    DEFAULT_CSS = """
    Notice { padding: 0 1; margin: 0 0 1 0; color: $text-muted;
        &.-warning { color: $text-warning; }
        &.-error { color: $text-error; } }
    """

    def __init__(self, text: str, *, kind: Literal["hint", "warning", "error"] = "hint") -> None:
        super().__init__(f"Error: {text}" if kind == "error" else text, markup=False, classes=f"-{kind}")
