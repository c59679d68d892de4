"""Markdown colors derived from a Textual theme."""

from collections.abc import Mapping
from dataclasses import dataclass

from rich.style import Style
from rich.theme import Theme as RichTheme
from textual.color import Color
from textual.theme import Theme


@dataclass(frozen=True, slots=True, kw_only=True)
class Palette:
    """Colors as hex values, and the Pygments style `syntax` of code."""

    heading: str
    inline_code: str
    muted: str
    link: str
    code_background: str
    syntax: str

    @classmethod
    def from_theme(cls, theme: Theme, variables: Mapping[str, str]) -> "Palette":
        """Return the palette of a theme with the CSS variables `variables`."""
        background, foreground = Color.parse(variables["background"]), Color.parse(variables["foreground"])
        return cls(
            heading=variables["primary"],
            inline_code=variables["accent"],
            muted=background.blend(foreground, 0.7).hex6,
            link=variables["primary"],
            code_background=background.blend(foreground, 0.08).hex6,
            syntax="one-dark" if theme.dark else "tango",
        )

    def styles(self) -> RichTheme:
        """Return styles under the names of Rich's Markdown."""
        heading = Style(color=self.heading, bold=True)
        muted = Style(color=self.muted)
        code = Style(color=self.inline_code, bgcolor=self.code_background)
        return RichTheme(
            {
                "markdown.h1": heading + Style(underline=True),
                "markdown.h2": heading,
                **{f"markdown.h{level}": Style(bold=True) for level in range(3, 7)},
                "markdown.code": code,
                "markdown.math": Style(),
                "markdown.block_quote": muted,
                "markdown.hr": muted,
                "markdown.item.bullet": heading,
                "markdown.item.number": heading,
                "markdown.table.border": muted,
                "markdown.table.header": heading,
                "markdown.link_text": Style(color=self.link, underline=True),
                "markdown.link_target": muted,
                "markdown.code_label": Style(color=self.muted, bgcolor=self.code_background, italic=True),
            }
        )
