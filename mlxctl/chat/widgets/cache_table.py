"""The prefix-cache entries that were used last, as a table."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual.widgets import DataTable

from mlxctl.chat.observation import format_bytes
from mlxctl.terminal_text import escape_control_characters

if TYPE_CHECKING:
    # PERF: the inference package is not imported before the first frame.
    from mlxctl.inference.interface import CacheEntry

_MIN_TEXT, _MAX_TEXT = 8, 4000
_GAP = 2


class CacheTable(DataTable[Text]):
    """One row per entry, the most recently used first.

    The last column has the start of its text.
    """

    def __init__(self, *, id: str) -> None:  # noqa: A002 -- Textual API
        super().__init__(id=id, cursor_type="row", zebra_stripes=True)
        self._widths: tuple[int, ...] = ()

    def show(self, entries: "Sequence[CacheEntry]", *, now: float) -> None:
        """Replace the rows; `now` is in unix seconds.

        The cursor stays in its row.
        """
        cursor_row = self.cursor_row
        rows = [[cell(entry, now) for _, cell in _COLUMNS] for entry in entries]
        columns = [[name, *cells] for (name, _), *cells in zip(_COLUMNS, *rows, strict=True)]
        widths = [max(map(len, cells)) for cells in columns]
        rest = (self.scrollable_content_region.width or self.size.width) - sum(widths) - _GAP * len(widths)
        self._set_columns((*widths, max(rest - _GAP, _MIN_TEXT)))
        for entry, cells in zip(entries, rows, strict=True):
            # The text column shows one line; the rest of it is cut off.
            text = " ".join((entry.text or "")[:_MAX_TEXT].split())[: self._widths[-1]]
            shown = Text(escape_control_characters(text))
            self.add_row(*(Text(cell, justify="right") for cell in cells), shown)
        self.move_cursor(row=cursor_row)

    def _set_columns(self, widths: tuple[int, ...]) -> None:
        is_same, self._widths = widths == self._widths, widths
        self.clear(columns=not is_same)
        if not is_same:
            for name, width in zip([name for name, _ in _COLUMNS], widths, strict=False):
                self.add_column(Text(name, justify="right"), width=width)
            self.add_column("text", width=widths[-1])


def _age(entry: "CacheEntry", now: float) -> str:
    if entry.used_at is None:
        return ""
    seconds = max(now - entry.used_at, 0.0)
    return f"{seconds:.0f} s" if seconds < 100 else f"{seconds / 60:.0f} min"


_COLUMNS: "tuple[tuple[str, Callable[[CacheEntry, float], str]], ...]" = (
    ("tokens", lambda entry, _: f"{entry.num_tokens:,}"),
    ("memory", lambda entry, _: format_bytes(entry.memory_bytes) if entry.memory_bytes else ""),
    ("disk", lambda entry, _: format_bytes(entry.disk_bytes) if entry.disk_bytes else ""),
    ("hits", lambda entry, _: f"{entry.num_hits:,}"),
    ("images", lambda entry, _: str(entry.num_images or "")),
    ("age", _age),
)
