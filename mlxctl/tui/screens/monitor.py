"""F5, /monitor and `mlxctl top`: the load of a server as plots, and a table of its requests."""

from collections.abc import Awaitable, Callable, Sequence

from rich.text import Text
from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Grid
from textual.screen import Screen
from textual.widgets import DataTable, Footer, Static

from mlxctl.errors import MlxctlError
from mlxctl.tui.observation import Observation, Trends
from mlxctl.tui.request_table import COLUMNS, WORD_COLUMNS, cache_words, memory_words, row
from mlxctl.tui.widgets.plot import Plot

Observe = Callable[[], Awaitable[Observation]]

_MAX_ROWS = 100


class MonitorScreen(Screen[None]):
    """Asks `observe` again and again; a server that does not answer is asked on, and what was known stays."""

    DEFAULT_CSS = """
    MonitorScreen {
        & #head { height: 1; padding: 0 1; background: $surface; }
        & Grid { grid-size: 3 2; grid-rows: 4; height: 8; padding: 0 1; grid-gutter: 0 2; }
        & #memory { height: auto; max-height: 3; padding: 0 1; color: $text-muted; }
        & DataTable { height: 1fr; padding: 0 1; } }
    """
    BINDINGS = [Binding("escape,f5,q", "leave", "Close"), Binding("space", "hold", "Pause")]  # noqa: RUF012 -- Textual declares it so

    def __init__(self, observe: Observe, *, where: str, interval_seconds: float = 1.0) -> None:
        super().__init__()
        self._observe = observe
        self._where = where
        self._interval_seconds = interval_seconds
        self._trends = Trends()
        self._is_held = False
        self._is_looking = False

    def compose(self) -> ComposeResult:
        """Plots above, the requests below."""
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
        """Ask at once, and then in turn."""
        self.query_one(DataTable).add_columns(*_aligned(COLUMNS))
        self._look()
        self.set_interval(self._interval_seconds, self._look)

    def action_leave(self) -> None:
        """Go back to the chat, or end when there is none below."""
        if len(self.app.screen_stack) > 1 and self.app.screen_stack[0] is not self:
            self.dismiss()
        else:
            self.app.exit()

    def action_hold(self) -> None:
        """Keep the image still, or let it go on."""
        self._is_held = not self._is_held
        self._say("paused; Space continues" if self._is_held else "")

    @work(group="look")
    async def _look(self) -> None:
        # A slow server is not asked again before it has answered.
        if self._is_held or self._is_looking:
            return
        self._is_looking = True
        try:
            self._trends.add(await self._observe())
        except MlxctlError as error:
            self._say(str(error))
        else:
            self._say("")
            self._show()
        finally:
            self._is_looking = False

    def _show(self) -> None:
        now = self._trends.last
        assert now is not None, "shown after a look"
        for plot in self.query(Plot):
            plot.show(getattr(self._trends, plot.id or ""))
        self.query_one("#memory", Static).update(f"{cache_words(now)}\n{memory_words(now)}")
        table = self.query_one(DataTable)
        place = table.cursor_row
        table.clear()
        table.add_rows([_aligned(row(view)) for view in now.requests[:_MAX_ROWS]])
        table.move_cursor(row=place)

    def _say(self, words: str) -> None:
        self.query_one("#head", Static).update(f"{self._where}  {words}")


def _aligned(cells: Sequence[str]) -> list[Text]:
    return [
        Text(cell, justify="left" if column in WORD_COLUMNS else "right")
        for column, cell in zip(COLUMNS, cells, strict=True)
    ]
