"""^F: one line that finds words in the conversation, the last place first."""

from collections.abc import Awaitable, Callable

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from mlxctl.tui.widgets.transcript import Transcript


class FindBar(Horizontal):
    """Enter goes to the place before, Shift-Enter or Down to the one after; Esc closes it."""

    DEFAULT_CSS = """
    FindBar { height: 1; padding: 0 1; background: $boost; display: none;
        &.-open { display: block; }
        & Input { width: 1fr; }
        & Static { width: auto; color: $text-muted; padding: 0 0 0 1; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual declares it so
        Binding("escape", "close", show=False),
        Binding("up", "go(-1)", show=False),
        Binding("down,shift+enter", "go(1)", show=False),
    ]

    def __init__(self, transcript: Transcript, *, complete: Callable[[], Awaitable[None]]) -> None:
        """`complete` brings everything that was said to the transcript."""
        super().__init__()
        self._transcript = transcript
        self._complete = complete
        self._found: list[Widget] = []
        self._place = 0

    def compose(self) -> ComposeResult:
        """The words, and how often they are there."""
        yield Input(placeholder="Find in this chat (Enter: previous, Esc: close)", id="find", compact=True)
        yield Static(id="place")

    def open(self) -> None:
        """Show it and take the cursor."""
        self.add_class("-open")
        self.query_one(Input).focus()
        self._find_everywhere()

    @on(Input.Changed)
    def find(self, changed: Input.Changed) -> None:
        """Look with every letter; the last place is the first to be shown."""
        changed.stop()
        self._find()

    @on(Input.Submitted)
    def find_before(self, submitted: Input.Submitted) -> None:
        """Go to the place before."""
        submitted.stop()
        self.action_go(-1)

    def action_go(self, step: int) -> None:
        """Go to another place, round and round."""
        if self._found:
            self._place = (self._place + step) % len(self._found)
            self._show()

    def action_close(self) -> None:
        """Hide it; the conversation stays where it is."""
        self.remove_class("-open")
        self._transcript.point_at(None)
        self.screen.query_one("#composer").focus()

    @work(exclusive=True)
    async def _find_everywhere(self) -> None:
        await self._complete()
        if self.has_class("-open"):
            self._find()

    def _find(self) -> None:
        words = self.query_one(Input).value.strip()
        self._found = self._transcript.found(words) if words else []
        self._place = len(self._found) - 1
        self._show()

    def _show(self) -> None:
        is_searching = bool(self.query_one(Input).value.strip())
        place = (
            f"{self._place + 1} of {len(self._found)}" if self._found else "not found" if is_searching else ""
        )
        self.query_one("#place", Static).update(place)
        self._transcript.point_at(self._found[self._place] if self._found else None)
