"""Plots of numbers over time."""

import math
from collections.abc import Sequence
from itertools import groupby

from textual.app import ComposeResult
from textual.containers import Vertical
from textual.content import Content
from textual.widgets import Static

_BAR_ROWS = 2
_EIGHTHS = " ▁▂▃▄▅▆▇█"
_HEIGHT = 8 * _BAR_ROWS


class BarChart(Vertical):
    """A line of text above two rows of bars."""

    DEFAULT_CSS = """
    BarChart { height: 4;
        & Static { height: 1; }
        & .bars { height: 2; width: 1fr; color: $primary; background: $surface; }
        &.-warning .bars { color: $warning; } }
    """

    def __init__(self, title: str, *, id: str) -> None:  # noqa: A002 -- Textual API
        super().__init__(id=id)
        self._title = title
        self._words = Static(title, markup=False)
        self._bars = Static(classes="bars", markup=False)

    def compose(self) -> ComposeResult:
        yield self._words
        yield self._bars


class Plot(BarChart):
    """Bars of the latest values, one per column, starting at zero.

    They end at `top`, or else at the maximum. The line above has the name, the last value and the maximum;
    in few columns it has less of them.
    """

    def __init__(self, title: str, *, id: str, top: float | None = None) -> None:  # noqa: A002 -- Textual API
        super().__init__(title, id=id)
        self._top = top

    def show(self, values: Sequence[float]) -> None:
        """Draw the values, newest at the right."""
        if not values:
            return
        width = max(self.size.width, 1)
        shown = list(values)[-width:]
        last = _number(shown[-1])
        name, whole = self._title.split(",")[0], f"{self._title}  {last}"
        candidates = (f"{whole}  (max {_number(max(shown))})", whole, f"{name}  {last}")
        self._words.update(next((text for text in candidates if len(text) <= width), last))
        # Padded at the left while there are few values.
        self._bars.update(bars([0.0] * (width - len(shown)) + shown, top=self._top))


class StackedPlot(BarChart):
    """Bars of pairs: the first number below the second.

    The line above has the names and last numbers in the colors of their bars.
    """

    def __init__(
        self,
        names: tuple[str, str],
        *,
        short_names: tuple[str, str],
        colors: tuple[str, str],
        id: str,  # noqa: A002 -- Textual API
    ) -> None:
        """`short_names` are for few columns."""
        super().__init__(" ".join(names), id=id)
        self._names = names
        self._short_names = short_names
        self._colors = colors

    def show(self, pairs: Sequence[tuple[float, float]]) -> None:
        """Draw the pairs, newest at the right."""
        if not pairs:
            return
        width = max(self.size.width, 1)
        shown = list(pairs)[-width:]
        texts = self._texts(self._names, shown[-1])
        if len(" ".join(texts)) > width:
            texts = self._texts(self._short_names, shown[-1])
        below, above = zip(texts, self._colors, strict=True)
        self._words.update(Content.assemble(below, " ", above))
        padding = [(0.0, 0.0)] * (width - len(shown))
        self._bars.update(stacked_bars(padding + shown, lower=self._colors[0], upper=self._colors[1]))

    def _texts(self, names: tuple[str, str], values: tuple[float, float]) -> list[str]:
        return [f"{name} {_short_number(value)}" for name, value in zip(names, values, strict=True)]


def bars(values: Sequence[float], *, top: float | None = None) -> str:
    """Return rows of block characters; any positive value is visible."""
    top = top or max(values) or 1.0
    heights = [_eighths(value, top) for value in values]
    rows = (
        "".join(_EIGHTHS[min(8, max(0, height - 8 * row))] for height in heights)
        for row in reversed(range(_BAR_ROWS))
    )
    return "\n".join(rows)


def stacked_bars(pairs: Sequence[tuple[float, float]], *, lower: str, upper: str) -> Content:
    """Return rows of block characters in two colors, such as `$primary`."""
    top = max(map(sum, pairs)) or 1.0
    heights = []
    for below, above in pairs:
        whole = _eighths(below + above, top)
        heights.append((min(_eighths(below, top), whole - 1 if above else whole), whole))
    parts: list[str | tuple[str, str]] = []
    for row in reversed(range(_BAR_ROWS)):
        cells = (_stacked_cell(below - 8 * row, whole - 8 * row, lower, upper) for below, whole in heights)
        parts += [(glyph * len(list(run)), style) for (glyph, style), run in groupby(cells)]
        if row:
            parts.append("\n")
    return Content.assemble(*parts)


def _stacked_cell(below: int, whole: int, lower: str, upper: str) -> tuple[str, str]:
    """Return the character and the style of one cell.

    Heights are in eighths above its bottom.
    """
    below, whole = min(8, max(0, below)), min(8, max(0, whole))
    if not below or not whole:
        return _EIGHTHS[whole], upper
    if below == whole:
        return _EIGHTHS[below], lower
    if whole == 8:
        return _EIGHTHS[below], f"{lower} on {upper}"
    # A cell has two colors at most, and one of them is the background.
    return _EIGHTHS[whole], upper if whole - below > below else lower


def _eighths(value: float, top: float) -> int:
    return min(math.ceil(_HEIGHT * value / top), _HEIGHT)


def _number(value: float) -> str:
    return f"{value:,.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def _short_number(value: float) -> str:
    return f"{value / 1000:,.0f}k" if value >= 10_000 else f"{value:,.0f}"
