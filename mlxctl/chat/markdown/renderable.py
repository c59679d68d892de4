"""Rich renderables for parsed Markdown.

Headings are left-aligned, code has a background, list numbers stay as written.
"""

from typing import ClassVar

from markdown_it.token import Token
from rich import box
from rich.console import Console, ConsoleOptions, RenderResult
from rich.markdown import (
    BlockQuote,
    CodeBlock,
    Heading,
    HorizontalRule,
    ListElement,
    ListItem,
    Markdown,
    MarkdownContext,
    MarkdownElement,
    TableElement,
)
from rich.padding import Padding
from rich.rule import Rule
from rich.segment import Segment
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text, TextType

from mlxctl.chat.markdown.palette import Palette
from mlxctl.chat.markdown.parser import parse
from mlxctl.terminal_text import escape_prose

# Tables with narrower cells are shown as plain rows.
_MIN_CELL_WIDTH = 6
# On narrower screens nested quotes and lists are not indented further.
_MIN_INDENTED_WIDTH = 12


class _Heading(Heading):
    LEVEL_ALIGN: ClassVar = dict.fromkeys(Heading.LEVEL_ALIGN, "left")


class _Code(CodeBlock):
    """A code block with its language; unformatted prose has no background."""

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_Code":
        assert isinstance(markdown, MarkdownText), "created by MarkdownText only"
        label = token.info.strip()
        block = cls((label.split() or ["text"])[0], markdown.code_theme)
        block.label = "" if markdown.continues_code and token is markdown.parsed[0] else label
        block.is_prose = bool(token.meta.get("is_prose"))
        block.background = markdown.palette.code_background
        return block

    label = ""
    is_prose = False
    background: str | None = None

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        code = str(self.text).rstrip()
        if self.is_prose:
            yield Text(code)
            return
        if self.label:
            yield Padding(Text(self.label, overflow="fold"), (0, 1), style="markdown.code_label")
        background = self.background or "default"
        yield Syntax(
            code,
            self.lexer_name,
            theme=self.theme,
            word_wrap=True,
            padding=(0, 1),
            background_color=background,
        )


class _Math(MarkdownElement):
    """Display math, indented."""

    new_line = True

    def __init__(self) -> None:
        self._text = ""

    def on_text(self, context: MarkdownContext, text: TextType) -> None:  # noqa: ARG002 -- Rich API
        self._text = str(text)

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = 2 if options.max_width >= _MIN_INDENTED_WIDTH else 0
        text = Text(self._text, overflow="fold")
        for line in console.render_lines(text, options.update(width=options.max_width - indent)):
            # In one segment: blank ones at the start are not drawn.
            yield Segment(" " * indent + "".join(segment.text for segment in line))
            yield Segment("\n")


class _BlockQuote(BlockQuote):
    """A bar at the left, omitted when quotes are nested too deep."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        indent = 2 if options.max_width >= _MIN_INDENTED_WIDTH else 0
        for line in console.render_lines(
            self.elements, options.update(width=options.max_width - indent), style=self.style
        ):
            yield Segment("▌ "[:indent], self.style)
            yield from line
            yield Segment("\n")


class _Rule(HorizontalRule):
    new_line = True

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        yield Rule(style="markdown.hr")


class _Table(TableElement):
    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        header = self.header.row.cells if self.header is not None and self.header.row is not None else []
        rows = [row.cells for row in self.body.rows] if self.body is not None else []
        if len(header) * _MIN_CELL_WIDTH > options.max_width:
            for row in [header, *rows]:
                yield Text(" | ").join(cell.content for cell in row)
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, style="markdown.table.border")
        for column in header:
            heading = column.content.copy()
            heading.stylize("markdown.table.header")
            table.add_column(
                heading, justify=column.justify if column.justify != "default" else "left", overflow="fold"
            )
        for row in rows:
            table.add_row(*(cell.content for cell in row))
        yield table


class _List(ListElement):
    """Keeps the written numbers, but counts when all numbers are equal."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        items = [item for item in self.items if isinstance(item, _MarkedListItem)]
        marks = [item.mark for item in items]
        if len(items) > 1 and len(set(marks)) == 1 and marks[0][:-1].isdigit():
            first = int(marks[0][:-1])
            marks = [f"{number}{marks[0][-1]}" for number in range(first, first + len(items))]
        width = max((len(mark) for mark in marks), default=0)
        for item, mark in zip(items, marks, strict=True):
            yield from item.render_with(mark.rjust(width), console, options)


class _MarkedListItem(ListItem):
    mark = "•"

    @classmethod
    def create(cls, markdown: Markdown, token: Token) -> "_MarkedListItem":  # noqa: ARG003 -- Rich API
        item = cls()
        if token.info:
            item.mark = f"{token.info}{token.markup}"
        elif token.markup not in "-*":
            # A `+`, or the box of a task.
            item.mark = token.markup
        return item

    def render_with(self, mark: str, console: Console, options: ConsoleOptions) -> RenderResult:
        is_indented = options.max_width >= max(_MIN_INDENTED_WIDTH, 2 * len(mark))
        indent = len(mark) + 2 if is_indented else 0
        style = console.get_style(
            "markdown.item.number" if mark.strip()[0].isdigit() else "markdown.item.bullet"
        )
        lines = console.render_lines(
            self.elements, options.update(width=options.max_width - indent), style=self.style
        )
        if not is_indented:
            yield Text(mark.strip())
        for index, line in enumerate(lines or [[]]):
            yield Segment((f" {mark} " if index == 0 else " " * indent)[:indent], style)
            yield from line
            yield Segment("\n")


class MarkdownText(Markdown):
    """Markdown source as a Rich renderable.

    With `continues_code` the first code block continues one that was split.
    """

    elements: ClassVar[dict[str, type[MarkdownElement]]] = {
        **Markdown.elements,
        "heading_open": _Heading,
        "fence": _Code,
        "code_block": _Code,
        "math_block": _Math,
        "blockquote_open": _BlockQuote,
        "hr": _Rule,
        "table_open": _Table,
        "bullet_list_open": _List,
        "ordered_list_open": _List,
        "list_item_open": _MarkedListItem,
    }
    inlines = Markdown.inlines | {"link_text", "link_target", "math"}

    def __init__(self, source: str, palette: Palette, *, continues_code: bool = False) -> None:
        self.markup = escape_prose(source)
        self.parsed = parse(self.markup)
        self.palette = palette
        self.continues_code = continues_code
        self.code_theme = palette.syntax
        self.justify = None
        self.style = "none"
        self.hyperlinks = True
        self.inline_code_lexer = self.inline_code_theme = None  # type: ignore[assignment]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        is_blank = True
        with console.use_theme(self.palette.styles()):
            for part in super().__rich_console__(console, options):
                for segment in [part] if isinstance(part, Segment) else console.render(part, options):
                    # Rich puts an empty line before lists and tables, even at the start.
                    is_blank = (
                        is_blank
                        and not segment.text.strip()
                        and (segment.style is None or segment.style.bgcolor is None)
                    )
                    if not is_blank:
                        yield segment
