"""One segment of Markdown as one widget. A widget for every paragraph would make a long conversation slow to scroll."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions, RenderableType
from rich.markdown import CodeBlock, Markdown
from rich.segment import Segment
from rich.syntax import Syntax
from textual.geometry import Size
from textual.widgets import Static


class _Code(CodeBlock):
    """A code block without lines of padding, so that one that was cut in two looks like one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Syntax]:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Markdown(Markdown):
    elements = {**Markdown.elements, "fence": _Code, "code_block": _Code}  # noqa: RUF012 -- Rich declares it so


class _Once:
    """Draws a renderable once for a width: a widget asks for its height, and then for its lines."""

    def __init__(self, renderable: RenderableType) -> None:
        self._renderable = renderable
        self._width = 0
        self._segments: list[Segment] = []

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Segment]:
        if options.max_width != self._width:
            self._width = options.max_width
            self._segments = list(console.render(self._renderable, options.update(height=None)))
        return self._segments


class Prose(Static):
    """Grows; what it costs to draw is bounded by the size of a segment."""

    DEFAULT_CSS = """
    Prose { height: auto; padding: 0 1; margin: 0 0 1 0; &.-goes-on { margin: 0; } }
    """

    def __init__(self) -> None:
        super().__init__()
        self._source = ""
        self._heights: dict[int, int] = {}

    @property
    def searchable(self) -> str:
        """The source of the Markdown."""
        return self._source

    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """Return the number of lines, counted once: Textual asks whenever anything on the screen has moved."""
        if width not in self._heights:
            self._heights[width] = super().get_content_height(container, viewport, width)
        return self._heights[width]

    def grow(self, text: str) -> None:
        """More of the text."""
        self._source += text
        self._heights.clear()
        code_theme = "ansi_dark" if self.app.current_theme.dark else "ansi_light"
        self.update(_Once(_Markdown(self._source, code_theme=code_theme, hyperlinks=False)))

    def goes_on(self) -> None:
        """What follows belongs to the same block."""
        self.add_class("-goes-on")
