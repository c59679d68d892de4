"""Monitor (F5, /monitor, `mlxctl top`): plots, and requests or cache entries."""

import time
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING

from rich.text import Text
from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid
from textual.screen import Screen
from textual.widgets import DataTable, Static

from mlxctl.chat.observation import PRESSURE_PERCENT, Observation, Trends, summary, warnings
from mlxctl.chat.preferences import Preferences
from mlxctl.chat.request_table import Column, FittedTable, SortOrder, describe_request, find_column, fit_table
from mlxctl.chat.screens.confirm import ConfirmScreen
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.widgets.cache_table import CacheTable
from mlxctl.chat.widgets.key_footer import KeyFooter
from mlxctl.chat.widgets.plot import Plot, StackedPlot
from mlxctl.ir.errors import MlxctlError
from mlxctl.terminal_text import escape_line

if TYPE_CHECKING:
    # PERF: the inference package is not imported before the first frame.
    from mlxctl.inference.interface import CacheEntry
    from mlxctl.inference.request_entry import RequestView

Observe = Callable[[], Awaitable[Observation]]
Cancel = Callable[[str], Awaitable[list[int]]]
"""Cancels an open request by its number; returns the numbers of its answers. Raises MlxctlError."""
ListEntries = Callable[[int], "Awaitable[Sequence[CacheEntry]]"]
"""Returns a number of prefix-cache entries, the most recently used first. Raises MlxctlError."""

_MAX_ROWS = 100
# The server detokenizes each of them.
_MAX_ENTRIES = 50
_NO_REQUEST = "No request yet."


class MonitorScreen(Screen[None]):
    """Polls `observe`; on errors the last values stay visible.

    The selected row follows its request while the order changes, except the first row, which stays. Cache
    entries are listed only while they are shown.
    """

    DEFAULT_CSS = """
    MonitorScreen {
        & #head { height: auto; max-height: 2; padding: 0 1; background: $surface; }
        & Grid { grid-size: 3 2; grid-rows: 4; height: 8; padding: 0 1; grid-gutter: 0 2; }
        &.-low Grid { grid-rows: 1; height: 2; }
        &.-low BarChart { height: 1; }
        &.-low .bars { display: none; }
        & #vision { display: none; }
        &.-images.-wide Grid { grid-size: 4 2; }
        &.-images.-wide #vision { display: block; }
        & #summary { height: auto; max-height: 7; padding: 0 1; color: $text-muted; }
        & #warnings { height: auto; padding: 0 1; color: $text-warning; display: none; }
        & DataTable { height: 1fr; padding: 0 0 0 1; scrollbar-gutter: stable; scrollbar-size-vertical: 1; }
        & DataTable, & DataTable:focus { background: $background; background-tint: transparent; }
        & #selected { height: auto; max-height: 5; padding: 0 1; background: $surface; }
        & #entries { display: none; }
        &.-entries #entries { display: block; }
        &.-entries #requests, &.-entries #selected { display: none; } }
    """
    # The plot of image times is a fourth column, and needs a wide screen.
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (100, "-wide")]  # noqa: RUF012 -- Textual API
    # The bars leave too few rows for requests on a low screen.
    VERTICAL_BREAKPOINTS = [(0, "-low"), (22, "-high")]  # noqa: RUF012 -- Textual API
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape,f5,q,ctrl+c", "leave", "Close", key_display="esc"),
        Binding("space", "pause", "Pause"),
        Binding("c", "entries", "Cache entries"),
        Binding("s", "sort", "Sort"),
        Binding("r", "reverse", "Reverse"),
        Binding("x,delete", "cancel", "Cancel request", key_display="x"),
    ]

    def __init__(
        self,
        observe: Observe,
        cancel: Cancel,
        list_entries: ListEntries,
        *,
        address: str,
        interval_seconds: float = 1.0,
    ) -> None:
        super().__init__()
        self._observe = observe
        self._cancel = cancel
        self._list_entries = list_entries
        self._order = SortOrder()
        self._fitted = FittedTable(columns=(), widths=(), rows=())
        self._shown: list[RequestView] = []
        self._where = address
        self._interval_seconds = interval_seconds
        self._trends = Trends()
        self._is_paused = False
        self._is_refreshing = False

    def compose(self) -> ComposeResult:
        yield Static(self._where, id="head", markup=False)
        with Grid():
            yield Plot("answers, tok/s", id="generated")
            yield Plot("prompts, tok/s", id="read")
            yield Plot("first token, ms", id="first_token")
            yield StackedPlot(
                ("running", "waiting"),
                short_names=("run", "wait"),
                colors=("$primary", "$warning"),
                id="running",
            )
            yield StackedPlot(
                ("cached", "computed"),
                short_names=("cached", "new"),
                colors=("$success", "$primary"),
                id="prompts",
            )
            yield Plot("cache, % of budget", id="cache", top=100.0)
            yield Plot("images, ms", id="vision")
        yield Static(id="warnings", markup=False)
        yield Static(id="summary", markup=False)
        yield DataTable(id="requests", cursor_type="row", zebra_stripes=True)
        yield CacheTable(id="entries")
        yield Static(_NO_REQUEST, id="selected", markup=False)
        yield KeyFooter()

    def on_mount(self) -> None:
        """Observe at once and then at each interval."""
        self._update()
        self.set_interval(self._interval_seconds, self._update)

    def action_leave(self) -> None:
        """Return to the chat, or exit when the monitor runs alone."""
        if len(self.app.screen_stack) > 1 and self.app.screen_stack[0] is not self:
            self.dismiss()
        else:
            self.app.exit()

    def action_pause(self) -> None:
        """Pause or continue polling."""
        self._is_paused = not self._is_paused
        self._set_message("paused; Space continues" if self._is_paused else "")

    def action_entries(self) -> None:
        """Show the entries of the prefix cache, or the requests again."""
        self.toggle_class("-entries")
        self.query_one("#entries" if self._shows_entries else "#requests").focus()
        self.refresh_bindings()
        self._update()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002
        """Return whether a key works now.

        Some keys are for the table of requests only.
        """
        return not (self._shows_entries and action in ("sort", "reverse", "cancel"))

    @property
    def _shows_entries(self) -> bool:
        return self.has_class("-entries")

    @work(group="update")
    async def _update(self) -> None:
        # One request at a time, also for slow servers.
        if self._is_paused or self._is_refreshing:
            return
        self._is_refreshing = True
        entries, message, is_observed = None, "", False
        try:
            self._trends.add(await self._observe())
            is_observed = True
            if self._shows_entries:
                entries = await self._list_entries(_MAX_ENTRIES)
        except MlxctlError as error:
            message = str(error)
        finally:
            self._is_refreshing = False
        if not self.query("#head"):
            # The screen was closed meanwhile, and has no widgets any more.
            return
        self._set_message(message)
        if is_observed:
            self._show()
        if entries is not None:
            self.query_one(CacheTable).show(entries, now=time.time())

    def _show(self) -> None:
        now = self._trends.last
        assert now is not None, "called after an observation"
        self._show_plots(now)
        shown = self.query_one("#warnings", Static)
        shown.update("\n".join(warnings(now)))
        shown.display = bool(warnings(now))
        self.query_one("#summary", Static).update("\n".join(summary(now)))
        self._show_table()

    def _show_plots(self, now: Observation) -> None:
        trends, vision = self._trends, now.vision_milliseconds
        for name in ("generated", "read", "first_token", "cache"):
            self.query_one(f"#{name}", Plot).show(getattr(trends, name))
        self.query_one("#cache").set_class((now.cache_percent or 0.0) > PRESSURE_PERCENT, "-warning")
        self.query_one("#running", StackedPlot).show(trends.running)
        self.query_one("#prompts", StackedPlot).show(now.prompts)
        self.set_class(bool(vision), "-images")
        self.query_one("#vision", Plot).show(vision)

    def _show_table(self, *, is_sorted_anew: bool = False) -> None:
        now, table = self._trends.last, self._table
        if now is None:
            return
        selected = self._selected if table.cursor_row else None
        views = self._order.sort(now.requests[:_MAX_ROWS])
        before = self._fitted
        self._fitted = fit_table(views, width=table.scrollable_content_region.width or self.size.width)
        self._shown = []
        is_same = not is_sorted_anew and (before.columns, before.widths) == (
            self._fitted.columns,
            self._fitted.widths,
        )
        table.clear(columns=not is_same)
        if not is_same:
            for column, width in zip(self._fitted.columns, self._fitted.widths, strict=True):
                # Automatic widths are computed later, and would be drawn too narrow until then.
                table.add_column(self._heading(column), key=column.name, width=width)
        table.add_rows(
            [
                [_aligned(column, cell) for column, cell in zip(self._fitted.columns, row, strict=True)]
                for row in self._fitted.rows
            ]
        )
        self._shown = views
        numbers = [view.number for view in views]
        if selected is not None and selected.number in numbers:
            table.move_cursor(row=numbers.index(selected.number))
        self._show_selected()

    @property
    def _table(self) -> "DataTable[Text]":
        return self.query_one("#requests", DataTable)

    @property
    def _selected(self) -> "RequestView | None":
        row = self._table.cursor_row
        return self._shown[row] if 0 <= row < len(self._shown) else None

    @on(DataTable.RowHighlighted, "#requests")
    def _show_selected(self) -> None:
        view = self._selected
        lines = [_NO_REQUEST] if view is None else describe_request(view)
        self.query_one("#selected", Static).update("\n".join(lines))

    def _heading(self, column: Column) -> Text:
        mark = ("▼" if self._order.is_descending else "▲") if column is self._order.column else ""
        return _aligned(column, f"{column.name}{mark}")

    @on(DataTable.HeaderSelected, "#requests")
    def sort_by_heading(self, selected: DataTable.HeaderSelected) -> None:
        """Sort by the clicked column; a second click reverses."""
        column = find_column(selected.column_key.value or "")
        is_same = column is self._order.column
        self._set_order(SortOrder(column=column, is_reversed=is_same and not self._order.is_reversed))

    def action_sort(self) -> None:
        """Sort by the next column; after the last one, newest first."""
        self._set_order(self._order.next(self._fitted.columns))

    def action_reverse(self) -> None:
        """Reverse the order of the sorted column."""
        if self._order.column is None:
            self.notify("s chooses a column to sort by.")
        else:
            self._set_order(SortOrder(column=self._order.column, is_reversed=not self._order.is_reversed))

    def _set_order(self, order: SortOrder) -> None:
        self._order = order
        self._show_table(is_sorted_anew=True)

    def action_cancel(self) -> None:
        """Cancel the selected request after a confirmation."""
        view = self._selected
        if view is None or not view.is_open:
            self.notify("Select a request that is not ended.", severity="warning")
            return

        def act(is_confirmed: bool | None) -> None:
            if is_confirmed:
                self._cancel_request(view.number)

        text = "\n".join([*describe_request(view)[:2], "Its client gets an error."])
        self.app.push_screen(ConfirmScreen(f"Cancel request {view.number}?", text), act)

    @work(group="cancel")
    async def _cancel_request(self, number: int) -> None:
        try:
            await self._cancel(str(number))
        except MlxctlError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify(f"Request {number} is cancelled.")
            self._update()

    def _set_message(self, text: str) -> None:
        self.query_one("#head", Static).update(escape_line(f"{self._where}  {text}"))


def _aligned(column: Column, text: str) -> Text:
    return Text(text, justify="left" if column.is_text else "right")


class MonitorApp(TerminalApp):
    """Application for the monitor alone; awaits `close` at the end."""

    TITLE = "mlxctl top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        observe: Observe,
        cancel: Cancel,
        list_entries: ListEntries,
        *,
        address: str,
        interval_seconds: float,
        close: Callable[[], Awaitable[None]],
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__(preferences)
        self._monitor = MonitorScreen(
            observe, cancel, list_entries, address=address, interval_seconds=interval_seconds
        )
        self._close_source = close

    def get_default_screen(self) -> MonitorScreen:
        return self._monitor

    async def on_unmount(self) -> None:
        await self._close_source()
