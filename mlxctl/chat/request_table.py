"""The table of requests: columns, order, and what fits. Pure."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from mlxctl.ir.errors import shortened
from mlxctl.terminal_text import escape_line

if TYPE_CHECKING:
    # PERF: the inference package is not imported before the first frame.
    from mlxctl.inference.request_entry import RequestView

_MAX_NAME = 16
_MIN_MODEL = 8
# Drop orders of figures, which the selected request has too.
_FIGURES = (3, 4, 5)
_GAP = 2
"""Blanks between two columns; also the padding of a cell of the screen's table."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Column:
    """A column of the table.

    `value` is what rows are sorted by, None sorts last. A column with `drop_order` is left out where the
    table is too wide, the lowest number first.
    """

    name: str
    cell: "Callable[[RequestView], str]"
    value: "Callable[[RequestView], Any]"
    is_text: bool = False
    drop_order: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class SortOrder:
    """Order of the rows: by a column, or the server's.

    The server sends open requests, then ended ones, newest first.
    """

    column: Column | None = None
    is_reversed: bool = False

    @property
    def is_descending(self) -> bool:
        """Numbers are shown largest first, text in alphabetical order."""
        return self.column is not None and self.column.is_text == self.is_reversed

    def next(self, columns: Sequence[Column]) -> "SortOrder":
        """Return the order by the next column.

        The server's order follows the last column.
        """
        index = 0 if self.column not in columns else columns.index(self.column) + 1
        return SortOrder(column=columns[index] if index < len(columns) else None)

    def sort(self, views: "Iterable[RequestView]") -> "list[RequestView]":
        """Return the requests in this order; equal ones keep theirs."""
        column = self.column
        if column is None:
            return list(views)
        found = list(views)
        known = [view for view in found if column.value(view) is not None]
        unknown = [view for view in found if column.value(view) is None]
        return [*sorted(known, key=column.value, reverse=self.is_descending), *unknown]


@dataclass(frozen=True, slots=True, kw_only=True)
class FittedTable:
    """The columns that fit, their widths, and the cells of each row."""

    columns: tuple[Column, ...]
    widths: tuple[int, ...]
    rows: tuple[tuple[str, ...], ...]


def _shorten(text: str, width: int = _MAX_NAME) -> str:
    return text if len(text) <= width else f"{text[: width - 1]}…"


def _model(view: "RequestView") -> str:
    remote = view.route.removeprefix("remote:")
    return view.model if remote == view.route else f"{view.model} @{remote}"


def _prompt(view: "RequestView") -> str:
    whole = f"{view.num_prompt_tokens:,}"
    return f"{view.num_read_tokens:,}/{whole}" if view.state == "reading" else whole


def _percent_cached(view: "RequestView") -> int:
    return 100 * view.num_cached_tokens // max(view.num_prompt_tokens, 1)


def _seconds(value: float | None) -> str:
    return "" if value is None else f"{value:.2f} s"


COLUMNS = (
    Column(name="#", cell=lambda view: str(view.number), value=lambda view: view.number),
    Column(name="model", cell=_model, value=lambda view: view.model, is_text=True),
    Column(name="state", cell=lambda view: view.state, value=lambda view: view.state, is_text=True),
    Column(name="prompt", cell=_prompt, value=lambda view: view.num_prompt_tokens),
    Column(name="cached", cell=lambda view: f"{_percent_cached(view)}%", value=_percent_cached, drop_order=4),
    Column(
        name="answer",
        cell=lambda view: f"{view.num_generated_tokens:,}",
        value=lambda view: view.num_generated_tokens,
    ),
    Column(
        name="tok/s",
        cell=lambda view: "" if view.tokens_per_second is None else f"{view.tokens_per_second:.0f}",
        value=lambda view: view.tokens_per_second,
        drop_order=5,
    ),
    Column(
        name="first",
        cell=lambda view: _seconds(view.first_token_seconds),
        value=lambda view: view.first_token_seconds,
        drop_order=3,
    ),
    Column(name="time", cell=lambda view: f"{view.age_seconds:.1f} s", value=lambda view: view.age_seconds),
    Column(
        name="client",
        cell=lambda view: _shorten(view.caller),
        value=lambda view: view.caller or None,
        is_text=True,
        drop_order=2,
    ),
    Column(
        name="protocol",
        cell=lambda view: view.protocol or "",
        value=lambda view: view.protocol,
        is_text=True,
        drop_order=1,
    ),
    Column(
        name="agent",
        cell=lambda view: _shorten(view.agent or ""),
        value=lambda view: view.agent,
        is_text=True,
        drop_order=0,
    ),
)


def find_column(name: str) -> Column:
    """Return the column of this name."""
    return next(column for column in COLUMNS if column.name == name)


def fit_table(views: "Sequence[RequestView]", *, width: int) -> FittedTable:
    """Return the table for `width` characters.

    Columns with a `drop_order` are left out until it fits: the first three before model names are shortened,
    figures only after that.
    """
    cells = {column.name: [_line(column.cell(view)) for view in views] for column in COLUMNS}

    def size(column: Column) -> int:
        # A heading has room for the mark of the order.
        return max([len(column.name) + 1, *map(len, cells[column.name])]) + _GAP

    columns = list(COLUMNS)
    for column in sorted(_optional(COLUMNS), key=lambda column: column.drop_order or 0):
        # What shorter model names would save.
        saved = size(find_column("model")) - _GAP - _MIN_MODEL if column.drop_order in _FIGURES else 0
        if sum(map(size, columns)) - saved > width:
            columns.remove(column)
    excess = sum(map(size, columns)) - width
    if excess > 0:
        most = max(size(find_column("model")) - _GAP - excess, _MIN_MODEL)
        cells["model"] = [_shorten(text, most) for text in cells["model"]]
    rows = zip(*(cells[column.name] for column in columns), strict=True)
    widths = tuple(size(column) - _GAP for column in columns)
    return FittedTable(columns=tuple(columns), widths=widths, rows=tuple(rows))


def _optional(columns: Sequence[Column]) -> list[Column]:
    return [column for column in columns if column.drop_order is not None]


def format_table(views: "Sequence[RequestView]", *, width: int) -> list[str]:
    """Return the lines of the table, with columns that fit."""
    table = fit_table(views, width=width)
    rows = [[column.name for column in table.columns], *table.rows]
    widths = [max(map(len, cells)) for cells in zip(*rows, strict=True)]
    aligns = [str.ljust if column.is_text else str.rjust for column in table.columns]
    gap = " " * _GAP
    return [
        gap.join(align(cell, width) for align, cell, width in zip(aligns, row, widths, strict=True)).rstrip()
        for row in rows
    ]


def describe_request(view: "RequestView") -> list[str]:
    """Return everything about a request that is not text: three lines."""
    end = f" ({view.finish_reason})" if view.finish_reason else ""
    facts = {
        "client": view.caller,
        "protocol": view.protocol,
        "agent": view.agent,
        "adapter": view.adapter,
        "route": "" if view.route == "local" else view.route,
        "id": view.request_id,
    }
    speed = view.prefill_tokens_per_second
    times: dict[str, str | None] = {
        "queued": _seconds(view.queue_seconds),
        "prefill": _seconds(view.prefill_seconds) + (f" at {speed:,.0f} tok/s" if speed else ""),
        "images": _seconds(view.vision_seconds),
        "first token": _seconds(view.first_token_seconds),
        "total": _seconds(view.age_seconds),
    }
    hit = f" ({view.hit.replace('_', ' ')})" if view.hit else ""
    tokens = (
        f"prompt {_prompt(view)} tokens, {view.num_cached_tokens:,} cached{hit}; "
        f"answer {view.num_generated_tokens:,} tokens"
    )
    speed_of_answer = f" at {view.tokens_per_second:.1f} tok/s" if view.tokens_per_second else ""
    lines = [
        _listed({f"request {view.number}": f"{view.model}, {view.state}{end}", **facts}),
        f"{tokens}{speed_of_answer}",
        _listed(times),
    ]
    return list(map(_line, lines))


def _line(text: str) -> str:
    """Return text of a server for one line."""
    return escape_line(shortened(text))


def _listed(facts: "dict[str, str | None]") -> str:
    return "  ".join(f"{name} {value}" for name, value in facts.items() if value)
