"""The input: several lines, sent with Enter, with a history, and with long pastes folded."""

import itertools

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.widgets import TextArea

from mlxctl.tui.chat_commands import completions
from mlxctl.tui.messages import InterruptPressed, PasteFolded, QuestionSubmitted


class InputHistory:
    """Keeps what was sent, oldest first, and the draft that was in the input before browsing."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._index = 0
        self._draft = ""

    @property
    def is_browsing(self) -> bool:
        """Whether an earlier question is in the input, not the draft."""
        return self._index < len(self._sent)

    @property
    def position(self) -> str:
        """Where browsing is, for people: `2 of 5`."""
        return f"{self._index + 1} of {len(self._sent)}"

    def add(self, text: str) -> str:
        """Remember what was sent and end browsing; returns the draft that was left for it."""
        draft = self._draft if self.is_browsing else ""
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self._index = len(self._sent)
        self._draft = ""
        return draft

    def older(self, current: str) -> str | None:
        """Return the question before; None at the first.

        `current` is kept as the draft when browsing begins.
        """
        if self._index == 0:
            return None
        if self._index == len(self._sent):
            self._draft = current
        self._index -= 1
        return self._sent[self._index]

    def newer(self) -> str | None:
        """Return the question after, at last the draft; None when there is nothing after."""
        if self._index == len(self._sent):
            return None
        self._index += 1
        return self._draft if self._index == len(self._sent) else self._sent[self._index]


_FOLD_CHARACTERS = 4000
_FOLD_LINES = 60
_NEW_LINE_KEYS = ("ctrl+j", "shift+enter", "alt+enter")


class Composer(TextArea):
    """A question in the making.

    A long paste stands as a mark like `[paste 1: 12,345 characters]`; what is sent is the paste.
    """

    DEFAULT_CSS = """
    Composer { height: auto; max-height: 8; border: round $primary 50%; padding: 0 1; background: transparent;
        border-subtitle-color: $text-muted;
        &:focus { border: round $primary; background: transparent; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual declares it so
        Binding("up", "older", show=False),
        Binding("down", "newer", show=False),
        Binding("pageup", "screen.scroll(-1)", show=False),
        Binding("pagedown", "screen.scroll(1)", show=False),
        Binding("ctrl+c", "copy_or_interrupt", show=False),
        Binding("ctrl+d", "delete_or_quit", show=False),
        Binding("ctrl+z", "app.suspend_process", show=False),
        Binding("ctrl+underscore,super+z", "undo", show=False),
    ]

    def __init__(self) -> None:
        super().__init__(id="composer", placeholder="Ask something … (/help)", highlight_cursor_line=False)
        self._history = InputHistory()
        self._folded: dict[str, str] = {}
        self._paste_numbers = itertools.count(1)

    @property
    def question(self) -> str:
        """The text with every mark replaced by what it stands for."""
        text = self.text
        for mark, content in self._folded.items():
            text = text.replace(mark, content)
        return text

    def set_text(self, text: str) -> None:
        """Replace the content, cursor at the end."""
        self.text = self._fold(text) if _is_long(text) else text
        self.move_cursor(self.document.end)

    def restore_question(self, text: str) -> None:
        """Put a question that was not asked back in front of what was typed since."""
        self.set_text(f"{text}\n{self.text}" if self.text.strip() else text)

    def add_to_history(self, text: str) -> None:
        """Add a question that was asked to the history; a draft that browsing had put aside comes back."""
        draft = self._history.add(text)
        if draft and not self.text:
            self.set_text(draft)

    async def on_key(self, event: events.Key) -> None:
        """Send with Enter, break the line with its kin.

        Not as bindings with priority: those overtake the keys that were pressed before them and are still on
        their way here.
        """
        if event.key in ("enter", *_NEW_LINE_KEYS):
            event.stop()
            event.prevent_default()
            if event.key != "enter":
                self.insert("\n")
            elif self._ends_with_backslash:
                self.action_delete_left()
                self.insert("\n")
            elif self.text.strip():
                self._send()

    def _show_hint(self) -> None:
        """Show which slash commands fit, or where in the history the text is from."""
        if self._history.is_browsing:
            self.border_subtitle = f"question {self._history.position}, Down: back to your draft"
        else:
            self.border_subtitle = Content("  ".join(completions(self.text)))

    def on_text_area_changed(self) -> None:
        """Keep the hints right."""
        self._show_hint()

    def action_older(self) -> None:
        """Go up; from the first line to its beginning, and from there, or from an empty input, to earlier
        questions.
        """
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif self.text and not self._history.is_browsing and self.cursor_location != (0, 0):
            # A draft does not vanish at the first key.
            self.move_cursor((0, 0))
        elif (text := self._history.older(self.question)) is not None:
            self.set_text(text)
            self._show_hint()

    def action_newer(self) -> None:
        """Go down, or to later questions from the last line."""
        if not self.cursor_at_last_line:
            self.action_cursor_down()
        elif (text := self._history.newer()) is not None:
            self.set_text(text)
            self._show_hint()

    def action_copy_or_interrupt(self) -> None:
        """Copy what is selected here or in the conversation; with nothing selected, interrupt."""
        if self.selected_text:
            self.action_copy()
        elif selected := self.screen.get_selected_text():
            self.app.copy_to_clipboard(selected)
        else:
            self.post_message(InterruptPressed())

    def action_delete_or_quit(self) -> None:
        """Delete the next character; in an empty input, end the chat, as in a shell."""
        if self.text:
            self.action_delete_right()
        else:
            self.app.exit()

    def on_paste(self, event: events.Paste) -> None:
        """Fold a long paste."""
        # Terminals end the lines of a paste as the Enter key does.
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        if _is_long(text):
            event.prevent_default()
            event.stop()
            self.insert(self._fold(text))
            self.post_message(PasteFolded(len(text)))

    def _send(self) -> None:
        # Emptied at once, so that what is typed from now on is the next question.
        question, self.text = self.question.strip(), ""
        self.post_message(QuestionSubmitted(question))

    @property
    def _ends_with_backslash(self) -> bool:
        row, column = self.cursor_location
        return (
            column > 0
            and self.document.get_line(row)[column - 1] == "\\"
            and column == len(self.document.get_line(row))
        )

    def _fold(self, text: str) -> str:
        num_lines = text.count("\n") + 1
        lines = f"{num_lines:,} line{'s' * (num_lines > 1)}"
        mark = f"[paste {next(self._paste_numbers)}: {lines}, {len(text):,} characters]"
        self._folded[mark] = text
        return mark


def _is_long(text: str) -> bool:
    return len(text) > _FOLD_CHARACTERS or text.count("\n") >= _FOLD_LINES
