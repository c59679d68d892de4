"""A number over time: its name, its last value and its highest, and bars that begin at nothing, so that they
can be trusted.
"""

import math
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

_BAR_ROWS = 2
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class Plot(Vertical):
    """Shows as many of the last values as there are columns."""

    DEFAULT_CSS = """
    Plot { height: 4;
        & Static { height: 1; }
        & .bars { height: 2; width: 1fr; color: $primary; background: $surface; } }
    """

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002 -- Textual calls it so
        super().__init__(id=id)
        self._title = title
        self._words = Static(title, markup=False)
        self._bars = Static(classes="bars", markup=False)

    def compose(self) -> ComposeResult:
        """Words above bars."""
        yield self._words
        yield self._bars

    def show(self, values: Sequence[float]) -> None:
        """Draw these values, the newest at the right."""
        if not values:
            return
        width = max(self.size.width, 1)
        shown = list(values)[-width:]
        last, highest = f"{self._title}  {_number(shown[-1])}", f"  (max {_number(max(shown))})"
        self._words.update(last + highest if len(last + highest) <= width else last)
        # Room to the left: a plot that has just begun is not stretched.
        self._bars.update(bars([0.0] * (width - len(shown)) + shown))


def bars(values: Sequence[float]) -> str:
    """Return rows of characters, the highest value reaching the top; whatever is more than nothing is seen."""
    top = max(values) or 1.0
    heights = [math.ceil(8 * _BAR_ROWS * value / top) for value in values]
    rows = (
        "".join(_EIGHTHS[min(8, max(0, height - 8 * row))] for height in heights)
        for row in reversed(range(_BAR_ROWS))
    )
    return "\n".join(rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
