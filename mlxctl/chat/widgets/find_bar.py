"""Search line of the chat (^F), starting at the last match."""

from collections.abc import Awaitable, Callable

from textual import on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Horizontal
from textual.widget import Widget
from textual.widgets import Input, Static

from mlxctl.chat.widgets.text_input import TextInput
from mlxctl.chat.widgets.transcript import ChatTranscript


class FindBar(Horizontal):
    """Enter: previous match, Shift-Enter or Down: next match, Esc: close."""

    DEFAULT_CSS = """
    FindBar { height: 1; padding: 0 1; background: $foreground 5%; display: none;
        &.-open { display: block; }
        & Input { width: 1fr; }
        & Static { width: auto; color: $text-muted; padding: 0 0 0 1; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("escape", "close", show=False),
        Binding("up", "go(-1)", show=False),
        Binding("down,shift+enter", "go(1)", show=False),
    ]

    def __init__(self, transcript: ChatTranscript, *, load_history: Callable[[], Awaitable[None]]) -> None:
        """`load_history` loads the messages that the transcript does not show yet."""
        super().__init__()
        self._transcript = transcript
        self._load_history = load_history
        self._matches: list[tuple[Widget, int]] = []
        self._index = 0
        self._is_loading = False

    def compose(self) -> ComposeResult:
        yield TextInput(
            placeholder="Find in this chat (Enter: previous, Esc: close)", id="find", compact=True
        )
        yield Static(id="position")

    def open(self) -> None:
        """Show the line and focus it."""
        self.add_class("-open")
        self.query_one(Input).focus()
        self._find_in_all_history()

    @on(Input.Changed)
    def find(self, changed: Input.Changed) -> None:
        """Search after each keystroke; select the last match."""
        changed.stop()
        self._find()

    @on(Input.Submitted)
    def find_previous(self, submitted: Input.Submitted) -> None:
        """Select the previous match."""
        submitted.stop()
        self.action_go(-1)

    def action_go(self, step: int) -> None:
        """Select another match, wrapping around."""
        if self._matches:
            self._index = (self._index + step) % len(self._matches)
            self._show_match()

    def action_close(self) -> None:
        """Hide the line; the scroll position stays."""
        self.remove_class("-open")
        self._transcript.highlight("", None)
        self.screen.query_one("#composer").focus()

    @work(exclusive=True)
    async def _find_in_all_history(self) -> None:
        self._is_loading = True
        await self._load_history()
        self._is_loading = False
        if self.has_class("-open"):
            self._find()

    def _find(self) -> None:
        query = self.query_one(Input).value.strip()
        self._matches = self._transcript.find_matches(query) if query else []
        self._index = len(self._matches) - 1
        self._show_match()

    def _show_match(self) -> None:
        is_searching = bool(self.query_one(Input).value.strip())
        position = (
            f"{self._index + 1} of {len(self._matches)}"
            if self._matches
            else ("searching …" if self._is_loading else "not found")
            if is_searching
            else ""
        )
        self.query_one("#position", Static).update(position)
        match = self._matches[self._index] if self._matches else None
        self._transcript.highlight(self.query_one(Input).value.strip(), match)
