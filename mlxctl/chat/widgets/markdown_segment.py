"""Widget for one segment of Markdown.

A widget per paragraph would make long conversations slow to scroll.
"""

from collections.abc import Iterable
from typing import cast

from rich.console import Console, ConsoleOptions, RenderableType
from rich.segment import Segment
from textual.geometry import Size

from mlxctl.chat.markdown import MarkdownText
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.widgets.searchable import SearchableStatic


class _RenderCache:
    """Caches the rendering for one width: Textual asks for height, then lines."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable
        self._width = 0
        self._segments: list[Segment] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        if options.max_width != self._width:
            self._width = options.max_width
            self._segments = list(console.render(self._renderable, options.update(height=None)))
        return self._segments


class MarkdownSegment(SearchableStatic):
    """Growing Markdown text; drawing costs are bounded by the segment's size."""

    DEFAULT_CSS = """
    MarkdownSegment { height: auto; padding: 0 1 0 2; margin: 0 0 1 0; &.-continued { margin: 0; } }
    """

    def __init__(self, *, continues_code: bool = False) -> None:
        """With `continues_code` the text starts inside the previous segment's code block."""
        super().__init__()
        self._source = ""
        self._continues_code = continues_code
        self._heights: dict[int, int] = {}

    @property
    def search_text(self) -> str:
        """The Markdown source of the segment."""
        return self._source

    def on_mount(self) -> None:
        """Redraw when the theme changes."""
        self.app.theme_changed_signal.subscribe(self, lambda _: self._draw())

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the height, cached: Textual asks after each movement."""
        if width not in self._heights:
            self._heights[width] = super().get_content_height(container, viewport, width)
        return self._heights[width]

    def append(self, text: str) -> None:
        self._source += text
        self._heights.clear()
        self._draw()

    def continue_block(self) -> None:
        """Remove the space below: the next segment continues the block."""
        self.add_class("-continued")

    def _draw(self) -> None:
        palette = cast("TerminalApp", self.app).palette
        self.update(_RenderCache(MarkdownText(self._source, palette, continues_code=self._continues_code)))
