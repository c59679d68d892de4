"""Static text whose matches of a search are highlighted line by line."""

import re

from rich.cells import cell_len
from rich.style import Style
from textual.strip import Strip
from textual.widgets import Static

# Reverse video is visible in every theme and without color.
_MATCH_STYLE = Style(reverse=True)


class SearchableStatic(Static):
    """Highlights matches in its drawn lines.

    A match across a line break is not highlighted.
    """

    _pattern: re.Pattern[str] | None = None

    def highlight(self, query: str) -> None:
        """Highlight all matches of `query`, ignoring case.

        An empty query removes the highlights.
        """
        self._pattern = re.compile(re.escape(query), re.IGNORECASE) if query else None
        self.refresh()

    def render_line(self, y: int) -> Strip:
        """Return the line `y` of the content with its matches highlighted."""
        strip = super().render_line(y)
        for start, end in reversed(self._matches(strip)):
            match = strip.crop(start, end).apply_style(_MATCH_STYLE)
            strip = Strip.join([strip.crop(0, start), match, strip.crop(end, strip.cell_length)])
        return strip

    def row_of_match(self, number: int) -> int:
        """Return the row of match `number`.

        Beyond the drawn matches: the last row with a match, or 0.
        """
        row = num_matches = 0
        for y in range(self.size.height):
            if num_found := len(self._matches(super().render_line(y))):
                row, num_matches = y, num_matches + num_found
                if num_matches > number:
                    break
        return row

    def _matches(self, strip: Strip) -> list[tuple[int, int]]:
        """Return start and end cells of the matches."""
        if self._pattern is None:
            return []
        text = strip.text
        return [
            (cell_len(text[: match.start()]), cell_len(text[: match.end()]))
            for match in self._pattern.finditer(text)
        ]
