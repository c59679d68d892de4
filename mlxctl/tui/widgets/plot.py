"""Plot of a number over time."""

import math
from collections.abc import Sequence

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.widgets import Static

_BAR_ROWS = 2
_EIGHTHS = " ▁▂▃▄▅▆▇█"


class Plot(Vertical):
    """Bars of the latest values, one per column, starting at zero.

    The line above has the name, the last value and the maximum.
    """

    DEFAULT_CSS = """
    Plot { height: 4;
        & Static { height: 1; }
        & .bars { height: 2; width: 1fr; color: $primary; background: $surface; } }
    """

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002 -- Textual API
        super().__init__(id=id)
        self._title = title
        self._words = Static(title, markup=False)
        self._bars = Static(classes="bars", markup=False)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._bars

    def show(self, values: Sequence[float]) -> None:
        """Draw the values, newest at the right."""
        if not values:
            return
        width = max(self.size.width, 1)
        shown = list(values)[-width:]
        last, highest = f"{self._title}  {_number(shown[-1])}", f"  (max {_number(max(shown))})"
        self._words.update(last + highest if len(last + highest) <= width else last)
        # Padded at the left while there are few values.
        self._bars.update(bars([0.0] * (width - len(shown)) + shown))


def bars(values: Sequence[float]) -> str:
    """Return rows of block characters; any positive value is visible."""
    top = max(values) or 1.0
    heights = [math.ceil(8 * _BAR_ROWS * value / top) for value in values]
    rows = (
        "".join(_EIGHTHS[min(8, max(0, height - 8 * row))] for height in heights)
        for row in reversed(range(_BAR_ROWS))
    )
    return "\n".join(rows)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"
