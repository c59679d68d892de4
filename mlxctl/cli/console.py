"""The consoles for tables and progress bars."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType
from rich.padding import Padding
from rich.segment import Segment
from rich.table import Column, Table
from rich.text import Text

from mlxctl.terminal_text import escape_control_characters

_WIDE = 160
_INDENT = (0, 0, 0, 2)
# Between two columns.
_GAP = 2


class _EscapingConsole(Console):
    """A console without markup that escapes control characters.

    SEC: names and texts of models and servers are printed on it. Also those that a table holds: every text is
    rendered here before it is written.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        # Before the widths of columns are measured.
        return super().render_str(escape_control_characters(text), **options)

    def render(self, renderable: RenderableType, options: ConsoleOptions | None = None) -> Iterator[Segment]:
        for segment in super().render(renderable, options):
            # Those with `control` are Rich's own, for a progress bar.
            yield segment if segment.control or segment.text.isprintable() else _escaped(segment)


def _escaped(segment: Segment) -> Segment:
    return Segment(escape_control_characters(segment.text), segment.style)


class _FileConsole(_EscapingConsole):
    """A console for files and pipes, without trailing blanks."""

    def print(self, *objects: Any, **options: Any) -> None:
        with self.capture() as captured:
            super().print(*objects, **options)
        self.file.write("\n".join(line.rstrip(" ") for line in captured.get().split("\n")))


def console(*, width: int = _WIDE, stderr: bool = False) -> Console:
    """Return the console for standard output or standard error.

    `width` applies off a terminal.
    """
    found = _EscapingConsole(stderr=stderr)
    return found if found.is_terminal else _FileConsole(width=width, stderr=stderr)


@contextmanager
def byte_progress(title: str, *, is_quiet: bool = False) -> Iterator[Callable[[int, int | None], None]]:
    """Show a transient progress bar on standard error, on terminals only.

    Call the yielded function with bytes done and bytes in total.
    """
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    screen = console(stderr=True)
    with Progress(
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        console=screen,
        disable=is_quiet or not screen.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task(title, total=None)
        yield lambda done, total: progress.update(
            task, completed=done if total is None else min(done, total), total=total
        )


def print_names(out: Console, table: Table) -> None:
    """Print a table whose first column has names, never cut off.

    Users copy them. In a terminal that is too narrow for the table, each name has a line above its row.
    """
    if out.measure(table, options=out.options.update(width=10_000)).maximum <= out.width:
        out.print(table)
        return
    names, *others = table.columns
    widths = _widths(others, out.width - _INDENT[3])
    columns = [
        Column(justify=column.justify, overflow="fold", width=width)
        for column, width in zip(others, widths, strict=True)
    ]
    rows = list(zip(*(column.cells for column in others), strict=True))
    _print_row(out, columns, [Text(_text(column.header), style="bold") for column in others])
    previous = None
    for name, row in zip(names.cells, rows, strict=True):
        if _text(name) != previous:
            previous = _text(name)
            out.print(Text(previous), soft_wrap=True)
        _print_row(out, columns, row)


def _print_row(out: Console, columns: list[Column], cells: Any) -> None:
    """Print a line of cells below their name."""
    row = Table(*(column.copy() for column in columns), box=None, pad_edge=False, show_header=False)
    row.add_row(*cells)
    out.print(Padding(row, _INDENT, expand=False))


def _widths(columns: list[Column], room: int) -> list[int]:
    """Return the widths of columns in `room`; some may wrap."""
    texts = [[_text(cell) for cell in (column.header, *column.cells)] for column in columns]
    widths = [max(map(cell_len, found)) for found in texts]
    narrowest = [
        width if column.no_wrap else max(cell_len(word) for text in found for word in text.split())
        for column, width, found in zip(columns, widths, texts, strict=True)
    ]
    while sum(widths) + _GAP * (len(widths) - 1) > room:
        spare, place = max((widths[n] - narrowest[n], n) for n in range(len(widths)))
        if spare <= 0:
            break
        widths[place] -= 1
    return widths


def _text(cell: Any) -> str:
    return cell.plain if isinstance(cell, Text) else str(cell)
