"""The input: several lines, sent with Enter, with a memory, and with room for pastes that no screen can show."""

import itertools

from textual import events
from textual.binding import Binding
from textual.widgets import TextArea

from mlxctl.tui.input_history import InputHistory
from mlxctl.tui.messages import InterruptPressed, PasteFolded, QuestionSubmitted

_FOLD_CHARACTERS = 4000
_FOLD_LINES = 60
_NEW_LINE_KEYS = ("ctrl+j", "shift+enter", "alt+enter")


class Composer(TextArea):
    """A question in the making. A long paste stands as a mark like `[paste 1: 12,345 characters]`; what is sent is the paste."""

    DEFAULT_CSS = """
    Composer { height: auto; max-height: 8; border: round $primary 50%; padding: 0 1; background: transparent;
        &:focus { border: round $primary; background: transparent; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual declares it so
        Binding("up", "older", show=False),
        Binding("down", "newer", show=False),
        Binding("pageup", "screen.scroll(-1)", show=False),
        Binding("pagedown", "screen.scroll(1)", show=False),
        Binding("ctrl+c", "copy_or_interrupt", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="composer", placeholder="Ask something …", highlight_cursor_line=False)
        self._memory = InputHistory()
        self._folded: dict[str, str] = {}
        self._paste_numbers = itertools.count(1)

    @property
    def question(self) -> str:
        """The text with every mark replaced by what it stands for."""
        text = self.text
        for mark, content in self._folded.items():
            text = text.replace(mark, content)
        return text

    def put(self, text: str) -> None:
        """Replace the content, cursor at the end."""
        self.text = self._fold(text) if _is_long(text) else text
        self.move_cursor(self.document.end)

    def accept(self) -> None:
        """What was submitted is taken: remember it and be empty."""
        self._memory.add(self.question.strip())
        self.text = ""

    async def on_key(self, event: events.Key) -> None:
        """Send with Enter, break the line with its kin.

        Not as bindings with priority: those overtake the keys that were pressed before them and are still on their way here.
        """
        if event.key in ("enter", *_NEW_LINE_KEYS):
            event.stop()
            event.prevent_default()
            if event.key != "enter":
                self.insert("\n")
            elif self.text.strip():
                self.post_message(QuestionSubmitted(self.question.strip()))

    def action_older(self) -> None:
        """Go up, or back in memory from the first line."""
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif (text := self._memory.older(self.question)) is not None:
            self.put(text)

    def action_newer(self) -> None:
        """Go down, or forth in memory from the last line."""
        if not self.cursor_at_last_line:
            self.action_cursor_down()
        elif (text := self._memory.newer()) is not None:
            self.put(text)

    def action_copy_or_interrupt(self) -> None:
        """Copy what is selected; with nothing selected, Ctrl-C means what it means everywhere."""
        if self.selected_text:
            self.action_copy()
        else:
            self.post_message(InterruptPressed())

    def on_paste(self, event: events.Paste) -> None:
        """Fold a long paste."""
        # Terminals end the lines of a paste as the Enter key does.
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        if _is_long(text):
            event.prevent_default()
            event.stop()
            self.insert(self._fold(text))
            self.post_message(PasteFolded(len(text)))

    def _fold(self, text: str) -> str:
        num_lines = text.count("\n") + 1
        lines = f"{num_lines:,} line{'s' * (num_lines > 1)}"
        mark = f"[paste {next(self._paste_numbers)}: {lines}, {len(text):,} characters]"
        self._folded[mark] = text
        return mark


def _is_long(text: str) -> bool:
    return len(text) > _FOLD_CHARACTERS or text.count("\n") >= _FOLD_LINES
