"""The input: multiple lines, history, and folded pastes."""

import asyncio
import itertools
from collections.abc import Callable

from textual import events
from textual.binding import Binding
from textual.content import Content
from textual.widgets import TextArea

from mlxctl.chat.chat_commands import completions, matching_commands
from mlxctl.chat.mentions import common_prefix, complete_path
from mlxctl.chat.messages import CommandTyped, InterruptPressed, PasteFolded, QuestionSubmitted
from mlxctl.chat.text_folding import is_long, mark_of
from mlxctl.chat.widgets.text_input import run_own_binding
from mlxctl.terminal_text import escape_control_characters


class InputHistory:
    """Sent questions, oldest first, and the draft from before browsing. Pure."""

    def __init__(self) -> None:
        self._sent: list[str] = []
        self._index = 0
        self._draft = ""

    @property
    def is_browsing(self) -> bool:
        """Whether an earlier question is shown instead of the draft."""
        return self._index < len(self._sent)

    @property
    def position(self) -> str:
        """Position in the history as text: `2 of 5`."""
        return f"{self._index + 1} of {len(self._sent)}"

    def add(self, text: str) -> str:
        """Add a sent question and end browsing; return the draft."""
        draft = self._draft if self.is_browsing else ""
        if not self._sent or self._sent[-1] != text:
            self._sent.append(text)
        self._index = len(self._sent)
        self._draft = ""
        return draft

    def older(self, current: str) -> str | None:
        """Return the previous question; None at the first.

        When browsing begins, `current` is kept as the draft.
        """
        if self._index == 0:
            return None
        if self._index == len(self._sent):
            self._draft = current
        self._index -= 1
        return self._sent[self._index]

    def newer(self) -> str | None:
        """Return the next question, finally the draft; None after it."""
        if self._index == len(self._sent):
            return None
        self._index += 1
        return self._draft if self._index == len(self._sent) else self._sent[self._index]


_NEW_LINE_KEYS = ("ctrl+j", "shift+enter", "alt+enter")


class Composer(TextArea):
    """Text area for a question.

    A long paste is shown as a placeholder like `[paste 1: 12,345 characters]` and sent in full.
    """

    DEFAULT_CSS = """
    Composer { height: auto; max-height: 8; border: round $primary 50%; padding: 0 1; background: transparent;
        border-subtitle-color: $text-muted;
        &:focus { border: round $primary; background: transparent; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        Binding("up", "older", show=False),
        Binding("down", "newer", show=False),
        Binding("pageup", "screen.scroll(-1)", show=False),
        Binding("pagedown", "screen.scroll(1)", show=False),
        Binding("ctrl+c", "copy_or_interrupt", show=False),
        Binding("ctrl+d", "delete_or_quit", show=False),
        Binding("ctrl+z", "app.suspend_process", show=False),
        Binding("ctrl+underscore,super+z", "undo", show=False),
    ]

    def __init__(self, take_back: Callable[[], str | None] = lambda: None) -> None:
        """`take_back` removes the last waiting question and returns it; None without one."""
        super().__init__(id="composer", placeholder="Ask something … (/help)", highlight_cursor_line=False)
        self._take_back = take_back
        self._history = InputHistory()
        self._folded: dict[str, str] = {}
        # What the last Tab found, while the text stays as it was.
        self._candidates: tuple[str, list[str]] = ("", [])
        self._selected_command: int | None = None
        self._paste_numbers = itertools.count(1)

    @property
    def question(self) -> str:
        """The text with all placeholders expanded."""
        text = self.text
        for mark, content in self._folded.items():
            text = text.replace(mark, content)
        return text

    def set_text(self, text: str) -> None:
        """Replace the text; the cursor goes to the end."""
        self.text = self._fold(text) if is_long(text) else text
        self.move_cursor(self.document.end)

    def restore_question(self, text: str) -> None:
        """Insert a rejected question before the text typed since."""
        self.set_text(f"{text}\n{self.text}" if self.text.strip() else text)

    def add_to_history(self, text: str) -> None:
        """Add a sent question to the history and restore the draft."""
        draft = self._history.add(text)
        if draft and not self.text:
            self.set_text(draft)

    async def on_key(self, event: events.Key) -> None:
        """Send with Enter; insert a line break with its variants.

        No priority bindings: they would overtake keys that were pressed earlier and are still queued.
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
                self._take_selected_command()
                self._send()
        elif event.key == "tab" and self._selected_command is not None:
            event.stop()
            event.prevent_default()
            self._take_selected_command(" ")
        elif event.key == "tab" and (word := self._word_at_cursor)[:1] in ("/", "@"):
            event.stop()
            event.prevent_default()
            await self._complete(word)
        else:
            await run_own_binding(self, event)

    @property
    def _word_at_cursor(self) -> str:
        """The slash command or @path that ends at the cursor."""
        row, column = self.cursor_location
        before = self.document.get_line(row)[:column]
        start = max(before.rfind(" "), before.rfind("\t")) + 1
        is_word = before[start:].startswith("@") or (row == start == 0 and before.startswith("/"))
        return before[start:] if is_word else ""

    async def _complete(self, word: str) -> None:
        """Insert what all continuations of the word share.

        Several are shown below the input.
        """
        if word.startswith("/"):
            found = completions(word)
        else:
            found = [f"@{path}" for path in await asyncio.to_thread(complete_path, word[1:])]
        if word != self._word_at_cursor or not found:
            return
        self.insert(common_prefix(found).removeprefix(word))
        if len(found) > 1 and word.startswith("@"):
            self._candidates = (self.text, found)
            self._show_hint()
        elif len(found) > 1 and common_prefix(found) == word:
            self._select_command(1)
        elif len(found) == 1 and not found[0].endswith("/"):
            self.insert(" ")

    def _show_hint(self) -> None:
        """Show continuations of a word, or the position in the history."""
        if self._history.is_browsing:
            self.border_subtitle = f"question {self._history.position}, Down: back to your draft"
        elif self._candidates[0] == self.text:
            self.border_subtitle = Content(escape_control_characters("  ".join(self._candidates[1])))
        else:
            self.border_subtitle = ""

    def on_text_area_changed(self) -> None:
        self._show_hint()
        self._selected_command = None
        self.post_message(CommandTyped(matching_commands(self.text), selected=None))

    def _select_command(self, step: int) -> bool:
        """Select another command that continues the text; return whether there is one.

        Not while earlier questions are shown, which the same keys choose.
        """
        commands = [] if self._history.is_browsing else matching_commands(self.text)
        if not commands:
            return False
        # Down begins at the first, Up at the last.
        before = self._selected_command if self._selected_command is not None else min(-step, 0)
        self._selected_command = (before + step) % len(commands)
        self.post_message(CommandTyped(commands, selected=self._selected_command))
        return True

    def _take_selected_command(self, end: str = "") -> None:
        """Replace the text by the selected command, if there is one."""
        if self._selected_command is not None:
            name = matching_commands(self.text)[self._selected_command].names[0]
            self.set_text(f"/{name}{end}")

    def action_older(self) -> None:
        """Move up; from the start of the text, show the previous question.

        In a list of commands, select one.
        """
        if self._select_command(-1):
            return
        if not self.cursor_at_first_line:
            self.action_cursor_up()
        elif self.text and not self._history.is_browsing and self.cursor_location != (0, 0):
            # The first key press does not replace a draft.
            self.move_cursor((0, 0))
        elif not self.text and (text := self._take_back()) is not None:
            self.set_text(text)
        elif (text := self._history.older(self.question)) is not None:
            self.set_text(text)
            self._show_hint()

    def action_newer(self) -> None:
        """Move down; from the last line, show the next question.

        In a list of commands, select one.
        """
        if self._select_command(1):
            return
        if not self.cursor_at_last_line:
            self.action_cursor_down()
        elif (text := self._history.newer()) is not None:
            self.set_text(text)
            self._show_hint()

    def action_copy_or_interrupt(self) -> None:
        """Copy the selection; without one, interrupt."""
        if self.selected_text:
            self.action_copy()
        elif selected := self.screen.get_selected_text():
            self.app.copy_to_clipboard(selected)
        else:
            self.post_message(InterruptPressed())

    def action_delete_or_quit(self) -> None:
        """Delete the next character; quit when the input is empty."""
        if self.text:
            self.action_delete_right()
        else:
            self.app.exit()

    def on_paste(self, event: events.Paste) -> None:
        """Fold a long paste."""
        # Terminals send pasted line ends as CR.
        text = event.text.replace("\r\n", "\n").replace("\r", "\n")
        if is_long(text):
            event.prevent_default()
            event.stop()
            self.insert(self._fold(text))
            self.post_message(PasteFolded(len(text)))

    def _send(self) -> None:
        # Cleared at once: keys typed from now on belong to the next question.
        question, shown, self.text = self.question.strip(), self.text.strip(), ""
        # No undo goes back beyond this.
        self._folded.clear()
        self.post_message(QuestionSubmitted(question, shown=shown))

    @property
    def _ends_with_backslash(self) -> bool:
        row, column = self.cursor_location
        return (
            column > 0
            and self.document.get_line(row)[column - 1] == "\\"
            and column == len(self.document.get_line(row))
        )

    def _fold(self, text: str) -> str:
        mark = mark_of(f"paste {next(self._paste_numbers)}", text)
        self._folded[mark] = text
        return mark
