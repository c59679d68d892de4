"""Readable colors in every theme: text contrast of at least 4.5 (WCAG).

A line filter after all others, so that it also sees the colors of Textual's widgets and of NO_COLOR. It
measures the colors that a terminal of 256 colors shows instead of those of the theme. ANSI colors, which only
the terminal resolves, are left alone.
"""

from functools import lru_cache

from rich.color import Color as RichColor
from rich.color import ColorSystem
from rich.color_triplet import ColorTriplet
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.filter import LineFilter

MIN_CONTRAST = 4.5
"""Contrast that WCAG 2 demands of text at level AA."""

_BLACK, _WHITE = ColorTriplet(0, 0, 0), ColorTriplet(255, 255, 255)


class ReadableColors(LineFilter):
    """Moves text colors toward black or white until they are readable.

    Block characters, which draw edges and bars, keep their colors. `has_few_colors`: the terminal has 256.
    """

    def __init__(self, *, has_few_colors: bool = False) -> None:
        super().__init__()
        self._has_few_colors = has_few_colors

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:
        """Return readable segments; `background` applies to segments without one."""
        behind = ColorTriplet(*background.rgb)
        return [
            segment
            if style is None or not _is_text(text)
            else Segment(text, _readable_style(style, behind, self._has_few_colors), control)
            for segment in segments
            for text, style, control in (segment,)
        ]


def contrast(one: ColorTriplet, other: ColorTriplet) -> float:
    """Return the WCAG 2 contrast ratio: 1 to 21."""
    brighter, darker = sorted((_luminance(one), _luminance(other)), reverse=True)
    return (brighter + 0.05) / (darker + 0.05)


def shown_color(color: ColorTriplet, *, has_few_colors: bool) -> ColorTriplet:
    """Return the color of the terminal that stands for this one."""
    if not has_few_colors:
        return color
    return RichColor.from_triplet(color).downgrade(ColorSystem.EIGHT_BIT).get_truecolor()


@lru_cache(4096)
def readable(color: ColorTriplet, background: ColorTriplet, *, has_few_colors: bool = False) -> ColorTriplet:
    """Return the closest readable color on the way to black or white."""
    background = shown_color(background, has_few_colors=has_few_colors)

    def is_readable(color: ColorTriplet) -> bool:
        return contrast(shown_color(color, has_few_colors=has_few_colors), background) >= MIN_CONTRAST

    if is_readable(color):
        return color
    end = max((_BLACK, _WHITE), key=lambda extreme: contrast(extreme, background))
    for percent in range(5, 100, 5):
        mixed = ColorTriplet(
            *(round(start + (stop - start) * percent / 100) for start, stop in zip(color, end, strict=True))
        )
        if is_readable(mixed):
            return mixed
    return end


@lru_cache(4096)
def _readable_style(style: Style, behind: ColorTriplet, has_few_colors: bool) -> Style:
    if (
        style.color is None
        or style.color.triplet is None
        or (style.bgcolor is not None and style.bgcolor.triplet is None)
    ):
        return style
    background = behind if style.bgcolor is None or style.bgcolor.triplet is None else style.bgcolor.triplet
    color = readable(style.color.triplet, background, has_few_colors=has_few_colors)
    return style if color == style.color.triplet else style + Style(color=RichColor.from_triplet(color))


@lru_cache(4096)
def _is_text(text: str) -> bool:
    return any(not character.isspace() and not "\u2580" <= character <= "\u259f" for character in text)


def _luminance(color: ColorTriplet) -> float:
    red, green, blue = (_linear(channel / 255) for channel in color)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(channel: float) -> float:
    return channel / 12.92 if channel <= 0.04045 else ((channel + 0.055) / 1.055) ** 2.4
