"""Monitor (F5, /monitor, `mlxctl top`): server load as plots, requests as table."""

from collections.abc import Awaitable, Callable, Sequence

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from mlxctl.errors import MlxctlError
from mlxctl.tui.observation import (
    COLUMNS,
    TEXT_COLUMNS,
    Observation,
    Trends,
    cache_summary,
    memory_summary,
    request_row,
)
from mlxctl.tui.preferences import Preferences
from mlxctl.tui.terminal_app import TerminalApp
from mlxctl.tui.widgets.plot import Plot

Observe = Callable[[], Awaitable[Observation]]

_MAX_ROWS = 100


class MonitorScreen(Screen[None]):
    """Polls `observe`; on errors the last values stay visible."""

    DEFAULT_CSS = """
    MonitorScreen {
        & #head { height: 1; padding: 0 1; background: $surface; }
        & Grid { grid-size: 3 2; grid-rows: 4; height: 8; padding: 0 1; grid-gutter: 0 2; }
        & #memory { height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
        & DataTable { height: 1fr; padding: 0 1; } }
    """
    BINDINGS = [Binding("escape,f5,q", "leave", "Close"), Binding("space", "pause", "Pause")]  # noqa: RUF012 -- Textual API

    def __init__(self, observe: Observe, *, address: str, interval_seconds: float = 1.0) -> None:
        super().__init__()
        self._observe = observe
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
            yield Plot("running", id="rows")
            yield Plot("waiting", id="waiting")
            yield Plot("cached prompt, %", id="cached")
        yield Static(id="memory", markup=False)
        yield DataTable(cursor_type="row", zebra_stripes=True)
        yield Footer(show_command_palette=False)

    def on_mount(self) -> None:
        """Observe at once and then at each interval."""
        self.query_one(DataTable).add_columns(*_aligned(COLUMNS))
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

    @work(group="update")
    async def _update(self) -> None:
        # One request at a time, also for slow servers.
        if self._is_paused or self._is_refreshing:
            return
        self._is_refreshing = True
        try:
            self._trends.add(await self._observe())
        except MlxctlError as error:
            self._set_message(str(error))
        else:
            self._set_message("")
            self._show()
        finally:
            self._is_refreshing = False

    def _show(self) -> None:
        now = self._trends.last
        assert now is not None, "called after an observation"
        for plot in self.query(Plot):
            plot.show(getattr(self._trends, plot.id or ""))
        self.query_one("#memory", Static).update(f"{cache_summary(now)}\n{memory_summary(now)}")
        table = self.query_one(DataTable)
        row_index = table.cursor_row
        table.clear()
        table.add_rows([_aligned(request_row(view)) for view in now.requests[:_MAX_ROWS]])
        table.move_cursor(row=row_index)

    def _set_message(self, text: str) -> None:
        self.query_one("#head", Static).update(f"{self._where}  {text}")


def _aligned(cells: Sequence[str]) -> list[Text]:
    return [
        Text(cell, justify="left" if column in TEXT_COLUMNS else "right")
        for column, cell in zip(COLUMNS, cells, strict=True)
    ]


class MonitorApp(TerminalApp):
    """Application for the monitor alone; awaits `close` at the end."""

    TITLE = "mlxctl top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        observe: Observe,
        *,
        address: str,
        interval_seconds: float,
        close: Callable[[], Awaitable[None]],
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__(preferences)
        self._monitor = MonitorScreen(observe, address=address, interval_seconds=interval_seconds)
        self._close_source = close

    def get_default_screen(self) -> MonitorScreen:
        return self._monitor

    async def on_unmount(self) -> None:
        await self._close_source()
