"""One segment of Markdown as one widget. A widget for every paragraph would make a long conversation slow to scroll."""

from collections.abc import Iterable

from rich.console import Console, ConsoleOptions
from rich.markdown import CodeBlock, Markdown
from rich.syntax import Syntax
from textual.widgets import Static


class _Code(CodeBlock):
    """A code block without lines of padding, so that one that was cut in two looks like one."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterable[Syntax]:
        yield Syntax(str(self.text).rstrip(), self.lexer_name, theme=self.theme, word_wrap=True, padding=(0, 1))


class _Markdown(Markdown):
    elements = {**Markdown.elements, "fence": _Code, "code_block": _Code}  # noqa: RUF012 -- Rich declares it so


class Prose(Static):
    """Grows; what it costs to draw is bounded by the size of a segment."""

    DEFAULT_CSS = """
    Prose { height: auto; padding: 0 1; margin: 0 0 1 0; &.-goes-on { margin: 0; } }
    """

    def __init__(self) -> None:
        super().__init__()
        self._source = ""

    @property
    def searchable(self) -> str:
        """The source of the Markdown."""
        return self._source

    def grow(self, text: str) -> None:
        """More of the text."""
        self._source += text
        code_theme = "ansi_dark" if self.app.current_theme.dark else "ansi_light"
        self.update(_Markdown(self._source, code_theme=code_theme, hyperlinks=False))

    def goes_on(self) -> None:
        """What follows belongs to the same block."""
        self.add_class("-goes-on")
