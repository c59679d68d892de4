"""A number over time: its name, its last value and its highest, and a line of bars."""

from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Sparkline, Static


class Plot(Vertical):
    """Shows as many of the last values as there are columns."""

    DEFAULT_CSS = """
    Plot { height: 4; & Sparkline { height: 2; width: 1fr; } & Static { height: 1; } }
    """

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002 -- Textual calls it so
        super().__init__(id=id)
        self._title = title

    def compose(self) -> ComposeResult:
        """Words above bars."""
        yield Static(self._title, markup=False)
        yield Sparkline([0.0], summary_function=max)

    def show(self, values: Sequence[float]) -> None:
        """Draw these values, the newest at the right."""
        if not values:
            return
        width = max(self.size.width, 1)
        shown = list(values)[-width:]
        last, highest = f"{self._title}  {_number(shown[-1])}", f"  (max {_number(max(shown))})"
        self.query_one(Static).update(last + highest if len(last + highest) <= width else last)
        # Room to the left: a plot that has just begun is not stretched.
        self.query_one(Sparkline).data = [0.0] * (width - len(shown)) + shown


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
