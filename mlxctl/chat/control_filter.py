"""Removes control characters from everything that is drawn.

SEC: escape sequences in the text of a file, a server or a model would reach the terminal. Widgets show them
as symbols; this filter is for what Textual draws itself.
"""

import re

from rich.segment import Segment
from textual.color import Color
from textual.filter import LineFilter

# Without a width in the layout, so that nothing moves.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


class ControlFilter(LineFilter):
    """Draws text without control characters and overrides of its direction."""

    def apply(self, segments: list[Segment], background: Color) -> list[Segment]:  # noqa: ARG002 -- Textual API
        """Return the segments; controls of Textual itself are kept."""
        return [
            segment if segment.control or not _CONTROLS.search(segment.text) else _without_controls(segment)
            for segment in segments
        ]


def _without_controls(segment: Segment) -> Segment:
    return Segment(_CONTROLS.sub("", segment.text), segment.style)
