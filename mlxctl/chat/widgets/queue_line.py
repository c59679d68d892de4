"""The questions that wait for the end of the answer."""

from collections.abc import Sequence

from textual.widgets import Static

from mlxctl.terminal_text import escape_control_characters


class QueueLine(Static):
    """A line for each waiting question; hidden without any."""

    DEFAULT_CSS = """
    QueueLine { height: auto; max-height: 4; padding: 0 1; color: $text-muted; display: none;
        text-wrap: nowrap; text-overflow: ellipsis; }
    """

    def __init__(self) -> None:
        super().__init__(id="queue", markup=False)

    def show(self, questions: Sequence[str]) -> None:
        """Show the first lines of the questions, the next one first."""
        self.display = bool(questions)
        lines = [f"queued {number}: {_first_line(text)}" for number, text in enumerate(questions, 1)]
        if len(lines) > 3:
            lines[2:] = [f"queued 3 to {len(lines)}: {_first_line(questions[2])} …"]
        hint = "Up takes the last one back. Esc stops the answer."
        self.update(escape_control_characters("\n".join([*lines, hint])))


def _first_line(text: str) -> str:
    first, *rest = text.strip().splitlines() or [""]
    return f"{first} …" if rest else first
