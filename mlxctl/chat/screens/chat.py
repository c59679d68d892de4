"""The chat screen: input, transcript, model and status. UI thread only."""

import asyncio
import time
from pathlib import Path
from typing import cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Center, Vertical
from textual.screen import Screen

from mlxctl.chat.backend_connection import HINTS, open_backend, ready_text
from mlxctl.chat.chat_commands import COMMANDS, SCROLL_KEYS, SlashCommand, read_input
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.controller import controller
from mlxctl.chat.controller.asking import leave_message
from mlxctl.chat.controller.chat_commands import continue_saved
from mlxctl.chat.controller.effects import Announce, Kind
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatEntry
from mlxctl.chat.gc_tuning import limit_collections
from mlxctl.chat.history_loader import HistoryLoader
from mlxctl.chat.messages import (
    CommandTyped,
    MessageClicked,
    PasteFolded,
    QuestionSubmitted,
    TextTyped,
    TopNear,
)
from mlxctl.chat.screens.effects import DISCONNECTED, ScreenEffects
from mlxctl.chat.session_autosave import SavedChat
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.tools.toolbox import OPENING_SECONDS
from mlxctl.chat.widgets.chat_sidebar import ChatSidebar
from mlxctl.chat.widgets.command_hints import CommandHints
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.find_bar import FindBar
from mlxctl.chat.widgets.header import ChatHeader
from mlxctl.chat.widgets.key_footer import KeyFooter
from mlxctl.chat.widgets.message_bar import MessageBar
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.queue_line import QueueLine
from mlxctl.chat.widgets.status_line import Status, StatusLine
from mlxctl.chat.widgets.too_small import MIN_HEIGHT, MIN_WIDTH, TooSmall
from mlxctl.chat.widgets.transcript import ChatTranscript
from mlxctl.ir.errors import MlxctlError, ServerUnreachable

_STATUS_SECONDS = 0.1
_CHECK_SECONDS = 5.0
_TWICE_SECONDS = 2.0
_MIN_HEIGHT_WITH_HEADER = 18


WIDE_COLUMNS = 140
"""Width from which the text is in the middle, beside the list of chats."""


class InputColumn(Vertical):
    """The input and the lines above it, as wide as the text."""

    DEFAULT_CSS = "InputColumn { height: auto; }"


class ChatScreen(Screen[None]):
    """One conversation with one backend.

    Keys and slash commands run commands of the controller; `ScreenEffects` shows what they do.
    """

    DEFAULT_CSS = """
    ChatScreen { layers: base top; &.-too-small > * { display: none;
        } &.-too-small > TooSmall { display: block; }
        &.-low > ChatHeader { display: none; }
        &.-wide { & > ChatTranscript { align-horizontal: center; } & InputColumn { max-width: 108; } }
        &.-wide.-with-sidebar > ChatSidebar { display: block; } }
    """
    BINDINGS = [  # noqa: RUF012 -- Textual API
        *(
            # With priority where Textual's own hidden binding has priority.
            Binding(
                item.keys,
                item.screen_action,
                item.footer_label,
                bool(item.footer_label),
                item.display_keys,
                priority=item.action.startswith("app.") or item.action in ("editor", "messages"),
            )
            for item in COMMANDS
            if item.keys
        ),
        *(Binding(keys, action, show=False) for keys, action in SCROLL_KEYS),
    ]

    def __init__(self, setup: ChatSetup) -> None:
        super().__init__()
        self._chat = ChatState(setup, has_input=True)
        transcript = ChatTranscript()
        self._history = HistoryLoader(transcript, setup.tools, setup.conversation.messages)
        self._effects = ScreenEffects(self, self._chat, self._history)
        self._widgets = (
            ChatHeader(),
            transcript,
            FindBar(transcript, load_history=self._history.load),
            Center(InputColumn(MessageBar(), QueueLine(), CommandHints(), Composer(self._take_back))),
            StatusLine(),
            KeyFooter(),
            ChatSidebar(setup.autosave),
            TooSmall(),
        )
        self._interrupted_at = self._escaped_at = 0.0

    def compose(self) -> ComposeResult:
        yield from self._widgets

    async def on_mount(self) -> None:
        """Show the first frame, then open the backend."""
        preferences = cast("TerminalApp", self.app).preferences
        self._chat.shows_statistics = preferences.shows_statistics
        self._transcript.set_class(not preferences.shows_statistics, "-without-statistics")
        self.query_one(Composer).focus()
        self._effects.show_state()
        self._effects.show_sidebar(preferences.shows_sidebar)
        await self._effects.announce(Announce(f"Connecting to {self._chat.backend.address} …"))
        if not self._chat.conversation.messages:
            await self._transcript.add(Notice(HINTS))
        if remembered := preferences.sampling.describe():
            await self._transcript.add(Notice(f"Remembered settings: {remembered} (/settings changes them)"))
        self._show_status()
        self.set_interval(_STATUS_SECONDS, self._show_status)
        self.set_interval(_CHECK_SECONDS, self._check)
        self.call_after_refresh(self._open)

    def on_resize(self, event: events.Resize) -> None:
        """Replace the screen by a notice when the terminal is too small."""
        was_too_small = self.has_class("-too-small")
        self.set_class(event.size.width < MIN_WIDTH or event.size.height < MIN_HEIGHT, "-too-small")
        self.set_class(event.size.height < _MIN_HEIGHT_WITH_HEADER, "-low")
        if (event.size.width >= WIDE_COLUMNS) != self.has_class("-wide"):
            self.toggle_class("-wide")
            self.refresh_bindings()
            self.call_after_refresh(self._fit_width)
        self.call_after_refresh(self._show_status)
        if was_too_small and not self.has_class("-too-small"):
            # Hidden widgets lose the focus.
            self.call_after_refresh(self.query_one(Composer).focus)

    def _fit_width(self) -> None:
        """List the chats that became visible; a hidden list loses the focus."""
        if self.focused is None:
            self.query_one(Composer).focus()
        self.query_one(ChatSidebar).reload()

    def on_screen_resume(self) -> None:
        """List the chats again: a dialog may have deleted some."""
        self.query_one(ChatSidebar).reload()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Enable stop while something runs, the sidebar where it fits."""
        match (action, *parameters):
            case ("command", "stop"):
                return self._chat.can_stop
            case ("command", "sidebar"):
                return self.has_class("-wide") and self._chat.autosave.is_enabled
            case _:
                return True

    async def submit(self, submitted: QuestionSubmitted) -> None:
        """Run a slash command or ask; rejected input returns to the composer.

        Call it in the application's message loop: a command may wait for the layout of this screen.
        """
        await self._effects.run(controller.submit(self._chat, submitted.text, shown=submitted.shown))

    async def continue_saved(self, saved: SavedChat) -> None:
        """Continue a saved chat in place of this one."""
        await self._effects.run(continue_saved(self._chat, saved))

    async def action_command(self, name: str, argument: str = "") -> None:
        """Run a command of the controller by its action."""
        await self._effects.run(controller.COMMANDS[name](self._chat, argument))

    @on(CommandTyped)
    def show_commands(self, typed: CommandTyped) -> None:
        """Show the commands that continue the text of the input."""
        self.query_one(CommandHints).show(typed.commands, selected=typed.selected)

    @on(PasteFolded)
    def notify_paste_folded(self, folded: PasteFolded) -> None:
        """Explain the placeholder of a long paste."""
        self.notify(
            f"Pasted {folded.num_characters:,} characters. They are shown as one mark and sent in full."
        )

    async def action_interrupt(self) -> None:
        """Stop the answer; without one, quit at the second press."""
        if self._chat.can_stop:
            await self.action_command("stop")
        elif time.monotonic() - self._interrupted_at < _TWICE_SECONDS:
            self.app.exit()
        else:
            self._interrupted_at = time.monotonic()
            self.notify("Press Ctrl-C again to quit.", timeout=_TWICE_SECONDS)

    async def action_go_back(self) -> None:
        """End an edit or a selection.

        Pressed twice in an empty input: select a message.
        """
        if self._chat.edited is not None or self._selected is not None:
            await self._effects.run(leave_message(self._chat))
        elif self.query_one(Composer).text:
            self._escaped_at = 0.0
        elif time.monotonic() - self._escaped_at < _TWICE_SECONDS:
            self._escaped_at = 0.0
            await self.action_command("messages")
        else:
            self._escaped_at = time.monotonic()

    async def action_select_message(self, step: int) -> None:
        """Select an earlier or a later message."""
        if self._selected is not None:
            number = self._selected.number + step
            most = len(self._chat.conversation.entries)
            await self.action_command("messages", f"{min(max(number, 1), most)}")

    async def action_on_message(self, name: str) -> None:
        """Run a slash command on the selected message."""
        if self._selected is not None:
            given = read_input(f"/{name} {self._selected.number}")
            assert isinstance(given, SlashCommand), "the bar names commands"
            await self._effects.run(controller.run(self._chat, given))

    def action_close_messages(self) -> None:
        """End the selection and go to the input; the scroll position stays."""
        self._effects.select(None)
        self.set_focus(self.query_one(Composer))

    @on(TextTyped)
    def type_into_input(self, typed: TextTyped) -> None:
        """End the selection and continue the text of the input."""
        self.action_close_messages()
        self.query_one(Composer).insert(typed.text)

    @on(MessageClicked)
    def select_clicked(self, clicked: MessageClicked) -> None:
        """Select a message; the input keeps the focus."""
        for entry in self._chat.conversation.entries:
            if entry.question is clicked.question and entry.is_question == clicked.is_question:
                self._effects.select(entry)

    def action_scroll(self, pages: int) -> None:
        """Scroll by pages; at the end the transcript follows new text again."""
        if pages < 0:
            self._transcript.scroll_page_up(animate=False)
        else:
            self._transcript.scroll_page_down(animate=False)

    def action_follow(self) -> None:
        """Scroll to the end and follow new text."""
        self._transcript.anchor()

    @on(TopNear)
    def load_more_history(self) -> None:
        """Load earlier messages when the top is near."""
        if self._history.has_more:
            self._load_near_history()

    @work(group="earlier")
    async def _load_near_history(self) -> None:
        await self._history.load_near()

    @work(group="open")
    async def _open(self) -> None:
        """Open the backend; earlier messages are loaded before it is ready."""
        chat, status = self._chat, self.query_one(StatusLine)
        await asyncio.to_thread(_import_drawing)
        await self._load_near_history().wait()
        tools = asyncio.create_task(chat.tools.open())
        chat.model = await open_backend(self._chat.backend, show=self._show_connection_status)
        if chat.model is not None:
            await self._effects.announce(Announce(ready_text(chat.model), replaces=True))
        await asyncio.wait({tools}, timeout=OPENING_SECONDS)
        while waiting := chat.tools.opening:
            status.set_state(f"waiting for {waiting} (Esc skips)")
            self._effects.show_state()
            await asyncio.wait({tools}, timeout=OPENING_SECONDS)
        await tools
        self._effects.show_state()
        self._effects.show_idle()
        for problem in chat.tools.problems:
            await self._transcript.add(Notice(problem, kind="warning"))
        limit_collections()
        chat.opened.set()

    async def _show_connection_status(self, text: str, kind: Kind) -> None:
        self.query_one(StatusLine).set_state("waiting for the server")
        await self._effects.announce(Announce(text, kind, replaces=True))

    @work(group="check", exclusive=True)
    async def _check(self) -> None:
        """Poll whether the server is reachable while nothing else runs."""
        if not self._is_idle or self._chat.model is None:
            return
        try:
            await self._chat.backend.check()
        except ServerUnreachable:
            is_reachable = False
        except MlxctlError:
            # The server is reachable; the error is shown with the next question.
            return
        else:
            is_reachable = True
        if self._is_idle:
            self._effects.show_idle(is_reachable=is_reachable)

    @property
    def _is_idle(self) -> bool:
        # A check may end after the screen is closed.
        lines = self.query(StatusLine)
        return not self._chat.is_busy and bool(lines) and lines.first().state in ("ready", DISCONNECTED)

    def _show_status(self) -> None:
        chat, status = self._chat, self.query_one(StatusLine)
        metrics = chat.meter.metrics()
        if metrics.usage is not None:
            chat.num_context_tokens = metrics.usage.num_prompt_tokens + metrics.usage.num_completion_tokens
        model = chat.model_name or "no model yet"
        self.query_one(ChatHeader).show(model, chat.conversation.title)
        status.show(
            Status(
                # A remote one is not known yet by its name.
                model=Path(self._chat.backend.address).name if status.state == "loading" else model,
                state=status.state,
                seconds=status.seconds_in_state,
                metrics=metrics,
                num_context_tokens=chat.num_context_tokens,
                context_length=chat.model.context_length if chat.model is not None else None,
                has_tools=chat.options.uses_tools and bool(chat.tools.specs),
            )
        )

    def _take_back(self) -> str | None:
        """Take the last queued question back into the input."""
        text = self._chat.take_back()
        self._effects.show_state()
        return text

    @property
    def _selected(self) -> ChatEntry | None:
        return self.query_one(MessageBar).entry

    @property
    def _transcript(self) -> ChatTranscript:
        return self.query_one(ChatTranscript)


def _import_drawing() -> None:
    """Import modules for drawing answers, after the first frame."""
    from rich.syntax import Syntax

    from mlxctl.chat.widgets.markdown_segment import MarkdownSegment

    assert MarkdownSegment is not None, "imported for its dependencies"
    Syntax("pass", "python").highlight("pass")
