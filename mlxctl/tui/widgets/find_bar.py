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

    def __init__(self, transcript: Transcript, *, load_history: Callable[[], Awaitable[None]]) -> None:
        """`complete` brings everything that was said to the transcript."""
        super().__init__()
        self._transcript = transcript
        self._load_history = load_history
        self._matches: list[Widget] = []
        self._index = 0

    def compose(self) -> ComposeResult:
        """The words, and how often they are there."""
        yield Input(placeholder="Find in this chat (Enter: previous, Esc: close)", id="find", compact=True)
        yield Static(id="position")

    def open(self) -> None:
        """Show it and take the cursor."""
        self.add_class("-open")
        self.query_one(Input).focus()
        self._find_in_all_history()

    @on(Input.Changed)
    def find(self, changed: Input.Changed) -> None:
        """Look with every letter; the last place is the first to be shown."""
        changed.stop()
        self._find()

    @on(Input.Submitted)
    def find_previous(self, submitted: Input.Submitted) -> None:
        """Go to the place before."""
        submitted.stop()
        self.action_go(-1)

    def action_go(self, step: int) -> None:
        """Go to another place, round and round."""
        if self._matches:
            self._index = (self._index + step) % len(self._matches)
            self._show_match()

    def action_close(self) -> None:
        """Hide it; the conversation stays where it is."""
        self.remove_class("-open")
        self._transcript.highlight(None)
        self.screen.query_one("#composer").focus()

    @work(exclusive=True)
    async def _find_in_all_history(self) -> None:
        await self._load_history()
        if self.has_class("-open"):
            self._find()

    def _find(self) -> None:
        query = self.query_one(Input).value.strip()
        self._matches = self._transcript.find_widgets(query) if query else []
        self._index = len(self._matches) - 1
        self._show_match()

    def _show_match(self) -> None:
        is_searching = bool(self.query_one(Input).value.strip())
        position = (
            f"{self._index + 1} of {len(self._matches)}"
            if self._matches
            else "not found"
            if is_searching
            else ""
        )
        self.query_one("#position", Static).update(position)
        self._transcript.highlight(self._matches[self._index] if self._matches else None)
