"""Terminal screens as SVG: one, or several in turn."""

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from itertools import groupby

from rich.color import Color
from rich.style import Style
from textual.app import App
from textual.strip import Strip

Row = tuple[tuple[str, Style], ...]
"""Runs of text of one style."""

_CELL_WIDTH, _LINE_HEIGHT, _FONT_SIZE = 8.4, 19, 14
_MARGIN, _TITLE_HEIGHT = 10, 34
_BACKGROUND = "#121212"


@dataclass(frozen=True, slots=True)
class Frame:
    """A screen, and how long it is shown."""

    rows: tuple[Row, ...]
    seconds: float


def read_screen(app: App[None]) -> tuple[Row, ...]:
    """Return the rows of the application's screen."""
    width, height = app.size
    strips = app.screen._compositor.render_strips()
    return tuple(_read_row(strip.crop(0, width)) for strip in strips[:height])


def draw(frames: Sequence[Frame], *, title: str, columns: int) -> str:
    """Return the frames as an SVG that shows them in a loop.

    A row that stays the same is drawn once. A viewer who prefers reduced motion sees the last frame.
    """
    total = sum(frame.seconds for frame in frames)
    width = columns * _CELL_WIDTH + 2 * _MARGIN
    height = len(frames[0].rows) * _LINE_HEIGHT + _TITLE_HEIGHT + _MARGIN
    shown = _times_of_rows(frames)
    rules, rows = [], []
    for number, ((index, row), times) in enumerate(shown.items()):
        is_constant = times == [(0.0, total)]
        is_last = times[-1][1] >= total
        name = "" if is_constant else f' class="v{number}{"" if is_last else " x"}"'
        rows.append(f"<g{name}>{_draw_row(row, _TITLE_HEIGHT + index * _LINE_HEIGHT)}</g>")
        if not is_constant:
            rules.append(_rule(f"v{number}", times, total))
    style = (
        "text{font-family:Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;"
        f"font-size:{_FONT_SIZE}px}}"
        f"@media(prefers-reduced-motion:no-preference){{{''.join(rules)}}}"
        "@media(prefers-reduced-motion:reduce){.x{visibility:hidden}}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:g} {height:g}" role="img">'
        f"<title>{escape(title)}</title><style>{style}</style>"
        f'<rect width="100%" height="100%" rx="8" fill="{_BACKGROUND}"/>'
        '<circle cx="18" cy="17" r="6" fill="#ff5f57"/><circle cx="38" cy="17" r="6" fill="#febc2e"/>'
        '<circle cx="58" cy="17" r="6" fill="#28c840"/>'
        f'<text x="{width / 2:g}" y="22" text-anchor="middle" fill="#aaa">{escape(title)}</text>'
        f"{''.join(rows)}</svg>\n"
    )


def _times_of_rows(frames: Sequence[Frame]) -> dict[tuple[int, Row], list[tuple[float, float]]]:
    """Return when each row is shown, as spans of seconds."""
    shown: dict[tuple[int, Row], list[tuple[float, float]]] = {}
    start = 0.0
    for frame in frames:
        end = start + frame.seconds
        for place in enumerate(frame.rows):
            spans = shown.setdefault(place, [])
            if spans and spans[-1][1] == start:
                spans[-1] = (spans[-1][0], end)
            else:
                spans.append((start, end))
        start = end
    return shown


def _rule(name: str, times: Sequence[tuple[float, float]], total: float) -> str:
    """Return the CSS that shows an element at these times."""
    steps = ["0%{visibility:hidden}"]
    for start, end in times:
        steps.append(f"{100 * start / total:.2f}%{{visibility:visible}}")
        if end < total:
            steps.append(f"{100 * end / total:.2f}%{{visibility:hidden}}")
    if times[0][0] == 0:
        del steps[0]
    return f"@keyframes {name}{{{''.join(steps)}}}.{name}{{animation:{name} {total:.1f}s step-end infinite}}"


def _read_row(strip: Strip) -> Row:
    runs = groupby(strip, key=lambda segment: segment.style or Style.null())
    return tuple((joined, style) for style, run in runs if (joined := "".join(part.text for part in run)))


def _draw_row(row: Row, top: float) -> str:
    drawn, column = [], 0
    for text, style in row:
        cells = len(text)
        left, width = _MARGIN + column * _CELL_WIDTH, cells * _CELL_WIDTH
        foreground, background = _color(style.color, "#e0e0e0"), _color(style.bgcolor, _BACKGROUND)
        if style.reverse:
            foreground, background = background, foreground
        if background != _BACKGROUND:
            drawn.append(
                f'<rect x="{left:.1f}" y="{top:g}" width="{width + 0.3:.1f}" height="{_LINE_HEIGHT + 0.3:g}" '
                f'fill="{background}"/>'
            )
        if text.strip():
            lead = len(text) - len(text.lstrip())
            word = text.strip()
            x, length = left + lead * _CELL_WIDTH, len(word) * _CELL_WIDTH
            look = (' font-weight="bold"' if style.bold else "") + (
                ' font-style="italic"' if style.italic else ""
            )
            drawn.append(
                f'<text x="{x:.1f}" y="{top + _FONT_SIZE:g}" textLength="{length:.1f}" '
                f'fill="{foreground}"{look}>{escape(word, quote=False)}</text>'
            )
        column += cells
    return "".join(drawn)


def _color(color: Color | None, default: str) -> str:
    return default if color is None or color.is_default else color.get_truecolor().hex
