"""Bar charts as SVG, readable in light and dark mode, without scripts."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

_WIDTH = 720
_LABEL_WIDTH = 170
_VALUE_WIDTH = 130
_ROW = 26
_TOP = 40
_BAR_HEIGHT = 16
_STYLE = """
text { font: 13px system-ui, sans-serif; fill: #24292f }
.title { font-weight: 600 } .A { fill: #0969da } .B { fill: #bf3989 }
.spread { stroke: #57606a; stroke-width: 1.5 }
@media (prefers-color-scheme: dark) {
  text { fill: #e6edf3 } .A { fill: #4493f8 } .B { fill: #db61a2 } .spread { stroke: #9198a1 }
}
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bar:
    """A value with its range; `series` is A or B."""

    label: str
    series: str
    value: float
    lowest: float
    highest: float
    text: str


def draw_bars(title: str, bars: Sequence[Bar]) -> str:
    """Return a chart: bars from zero, with lines from minimum to maximum."""
    room = _WIDTH - _LABEL_WIDTH - _VALUE_WIDTH
    top = max(bar.highest for bar in bars) or 1.0
    rows = "\n".join(
        _row(number, bar, *(room * (value / top) for value in _values(bar)))
        for number, bar in enumerate(bars)
    )
    height = _TOP + _ROW * len(bars) + 8
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{_WIDTH}" height="{height}"'
        f' viewBox="0 0 {_WIDTH} {height}" role="img">\n'
        f"<title>{escape(title)}</title>\n<style>{_STYLE}</style>\n"
        f'<text class="title" x="0" y="20">{escape(title)}</text>\n{rows}\n</svg>\n'
    )


def _values(bar: Bar) -> tuple[float, float, float]:
    return bar.value, bar.lowest, bar.highest


def _row(number: int, bar: Bar, width: float, lowest: float, highest: float) -> str:
    top = _TOP + number * _ROW
    middle, baseline = top + _BAR_HEIGHT / 2, top + _BAR_HEIGHT - 3
    low, high = _LABEL_WIDTH + lowest, _LABEL_WIDTH + highest
    return (
        f'<text x="{_LABEL_WIDTH - 8}" y="{baseline:g}" text-anchor="end">{escape(bar.label)}</text>'
        f'<rect class="{escape(bar.series)}" x="{_LABEL_WIDTH}" y="{top}" width="{width:.1f}"'
        f' height="{_BAR_HEIGHT}" rx="2"/>'
        f'<line class="spread" x1="{low:.1f}" x2="{high:.1f}" y1="{middle:g}" y2="{middle:g}"/>'
        f'<text x="{high + 8:.1f}" y="{baseline:g}">{escape(bar.text)}</text>'
    )
