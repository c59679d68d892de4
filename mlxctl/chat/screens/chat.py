"""The chat screen: input, transcript, model and running answer. UI thread only."""

import asyncio
import time
from pathlib import Path
from typing import cast

from textual import events, on, work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Center, Vertical
from textual.worker import Worker

from mlxctl.chat.attachments import Attachment
from mlxctl.chat.backend_connection import HINTS, open_backend, ready_text
from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_commands import (
    COMMANDS,
    SCROLL_KEYS,
    ChatCommand,
    SlashCommand,
    UnknownCommand,
    read_input,
)
from mlxctl.chat.conversation import Conversation
from mlxctl.chat.error_text import sentence
from mlxctl.chat.gc_tuning import collect_all, limit_collections
from mlxctl.chat.history_loader import HistoryLoader
from mlxctl.chat.mentions import MentionedFiles, read_mentions
from mlxctl.chat.messages import CommandTyped, PasteFolded, QuestionSubmitted, TopNear
from mlxctl.chat.screens.answers import DISCONNECTED, MAX_QUEUED
from mlxctl.chat.screens.message_actions import MessageActions
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.tools.toolbox import OPENING_SECONDS
from mlxctl.chat.widgets.chat_sidebar import ChatSidebar
from mlxctl.chat.widgets.command_hints import CommandHints
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.find_bar import FindBar
from mlxctl.chat.widgets.header import ChatHeader
from mlxctl.chat.widgets.key_footer import KeyFooter
from mlxctl.chat.widgets.message_bar import MessageBar
from mlxctl.chat.widgets.notice import Kind, Notice
from mlxctl.chat.widgets.queue_line import QueueLine
from mlxctl.chat.widgets.status_line import Status, StatusLine
from mlxctl.chat.widgets.too_small import MIN_HEIGHT, MIN_WIDTH, TooSmall
from mlxctl.chat.widgets.transcript import ChatTranscript
from mlxctl.ir.errors import MlxctlError, ServerUnreachable, StoreError

_STATUS_SECONDS = 0.1
_CHECK_SECONDS = 5.0
_TWICE_SECONDS = 2.0
_MIN_HEIGHT_WITH_HEADER = 18
WIDE_COLUMNS = 140
"""Width from which the text is in the middle, beside the list of chats."""


class InputColumn(Vertical):
    """The input and the lines above it, as wide as the text."""

    DEFAULT_CSS = "InputColumn { height: auto; }"


class ChatScreen(MessageActions):
    """One conversation with one backend."""

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
                item.action,
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

    def compose(self) -> ComposeResult:
        transcript = ChatTranscript()
        self._history = HistoryLoader(transcript, self._tools, self._conversation.messages)
        yield ChatHeader()
        yield transcript
        yield FindBar(transcript, load_history=self._load_all_history)
        yield Center(InputColumn(MessageBar(), QueueLine(), CommandHints(), Composer(self._take_back)))
        yield StatusLine()
        yield KeyFooter()
        yield ChatSidebar(self._autosave)
        yield TooSmall()

    async def on_mount(self) -> None:
        """Show the first frame, then open the backend."""
        self._opening_notice = Notice(f"Connecting to {self._backend.address} …")
        self._interrupted_at = self._escaped_at = 0.0
        self.query_one(Composer).focus()
        self._show_attached(self._attached)
        preferences = cast("TerminalApp", self.app).preferences
        self._show_statistics(preferences.shows_statistics)
        self._show_sidebar(preferences.shows_sidebar)
        await self._transcript.add(self._opening_notice)
        if not self._conversation.messages:
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

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:  # noqa: ARG002 -- Textual API
        """Enable stop while something runs, the sidebar where it fits."""
        if action == "sidebar":
            return self.has_class("-wide") and self._autosave.is_enabled
        return self._can_stop if action == "stop" else True

    @property
    def _can_stop(self) -> bool:
        return self._is_busy or self._is_waiting_for_tools

    def on_worker_state_changed(self, changed: Worker.StateChanged) -> None:
        """Refresh the footer and continue the queue when an answer ends."""
        if changed.worker is self._answer_worker:
            self.refresh_bindings()
            if changed.worker.is_finished:
                self.call_later(self._continue_queue)
        elif changed.worker.group == "save" and changed.worker.is_finished:
            self.query_one(ChatSidebar).reload()

    def on_screen_resume(self) -> None:
        """List the chats again: a dialog may have deleted some."""
        self.query_one(ChatSidebar).reload()

    async def submit(self, submitted: QuestionSubmitted) -> None:
        """Run a slash command or ask; rejected input returns to the composer.

        Call it in the application's message loop: a command may wait for the layout of this screen.
        """
        composer = self.query_one(Composer)
        match read_input(submitted.text):
            case UnknownCommand(message=message):
                self.notify(message, severity="warning", markup=False)
                composer.restore_question(submitted.text)
            case SlashCommand(command=command, argument=argument):
                composer.add_to_history(submitted.text)
                await self._run_command(command, argument)
            case str() as question:
                try:
                    # Of `//word` one slash is sent.
                    shown = submitted.shown[len(submitted.text) - len(question) :]
                    mentioned = await self._read_mentions(question, shown)
                except StoreError as error:
                    reason: str | None = str(error)
                else:
                    reason = self._question_rejection(mentioned.images)
                if reason is not None:
                    self.notify(reason, severity="warning", markup=False)
                    composer.restore_question(submitted.text)
                elif mentioned.unknown:
                    self._confirm_unknown(mentioned, submitted.text)
                else:
                    await self._ask_mentioning(mentioned, submitted.text)

    async def _ask_mentioning(self, mentioned: MentionedFiles, typed: str) -> None:
        self.query_one(Composer).add_to_history(typed)
        if mentioned.files:
            self.notify(f"Sent with the question: {', '.join(mentioned.files)}", markup=False)
        await self._ask_or_queue(mentioned)

    def _confirm_unknown(self, mentioned: MentionedFiles, typed: str) -> None:
        """Ask about mentions without a file.

        The model would invent the content.
        """

        async def send(is_agreed: bool | None) -> None:
            if is_agreed:
                await self._ask_mentioning(mentioned, typed)
            else:
                self.query_one(Composer).restore_question(typed)

        self._confirm(f"No file {', '.join(mentioned.unknown)}", "Send the question without it?", send)

    async def _read_mentions(self, question: str, shown: str) -> MentionedFiles:
        """Return the question with its @files. Raises StoreError."""
        images = (*self._conversation.images, *self._attached)
        return await asyncio.to_thread(read_mentions, question, shown=shown, existing_images=images)

    def _question_rejection(self, images: tuple[Attachment, ...]) -> str | None:
        if len(self._queue) >= MAX_QUEUED:
            return f"{MAX_QUEUED} questions are queued already. Up takes the last one back."
        if self._opened.is_set() and self._model is None:
            return "There is no model to ask. See the error above."
        if reason := self._rejection((*self._attached, *images)):
            hint = " /attach without a file removes the attached files." if self._attached else ""
            return f"{reason}{hint}"
        return None

    async def _run_command(self, command: ChatCommand, argument: str) -> None:
        if argument:
            await self._run_with_argument(command.action, argument)
        elif command.action == "app.quit":
            self.app.exit()
        elif command.action == "sidebar" and not self.check_action("sidebar", ()):
            self.action_sessions()
        else:
            await self.run_action(command.action)

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

    def action_interrupt(self) -> None:
        """Stop the answer; without one, quit at the second press."""
        if self._can_stop:
            self.action_stop()
        elif time.monotonic() - self._interrupted_at < _TWICE_SECONDS:
            self.app.exit()
        else:
            self._interrupted_at = time.monotonic()
            self.notify("Press Ctrl-C again to quit.", timeout=_TWICE_SECONDS)

    async def action_go_back(self) -> None:
        """End an edit or a selection.

        Pressed twice in an empty input: select a message.
        """
        if self._edited is not None or self._selected is not None:
            self._leave_message()
        elif self.query_one(Composer).text:
            self._escaped_at = 0.0
        elif time.monotonic() - self._escaped_at < _TWICE_SECONDS:
            self._escaped_at = 0.0
            await self.action_messages()
        else:
            self._escaped_at = time.monotonic()

    @on(TopNear)
    def load_more_history(self) -> None:
        """Load earlier messages when the top is near."""
        if self._history.has_more:
            self._load_near_history()

    async def action_new(self) -> None:
        """Start a new conversation; the current one stays saved."""
        await self._stop_and_save()
        self._autosave.start_new_chat()
        await self._show_conversation(Conversation())
        self._show_attached(())
        await self._transcript.add(Notice("New chat."))

    async def _show_conversation(self, conversation: Conversation) -> None:
        """Replace the conversation on the screen."""
        self._leave_message()
        self._conversation = conversation
        self.query_one(ChatSidebar).reload()
        self._reset_metrics(conversation.num_context_tokens)
        await self._history.cancel()
        await self._transcript.clear()
        collect_all()
        self._history = HistoryLoader(self._transcript, self._tools, conversation.messages)
        await self._load_near_history().wait()

    @work(group="open")
    async def _open(self) -> None:
        """Open the backend; earlier messages are loaded before it is ready."""
        await asyncio.to_thread(_import_drawing)
        await self._load_near_history().wait()
        self._set_state("loading")
        tools = asyncio.create_task(self._tools.open())
        self._model = await open_backend(self._backend, show=self._show_connection_status)
        if self._model is not None:
            self._opening_notice.set_message(ready_text(self._model))
        await asyncio.wait({tools}, timeout=OPENING_SECONDS)
        while waiting := self._tools.opening:
            self._set_state(f"waiting for {waiting} (Esc skips)")
            self.refresh_bindings()
            await asyncio.wait({tools}, timeout=OPENING_SECONDS)
        await tools
        self.refresh_bindings()
        self._set_state("ready" if self._model is not None else "no model")
        for problem in self._tools.problems:
            await self._transcript.add(Notice(problem, kind="warning"))
        limit_collections()
        self._opened.set()

    @work(group="open")
    async def _switch(self, name: str) -> None:
        """Load another model; new questions wait for it."""
        self._model, before = None, self._model
        self._set_state(f"loading {name}")
        # Later messages about loading replace this notice, above the questions that wait.
        self._opening_notice = Notice(f"Loading {name} …")
        await self._transcript.add(self._opening_notice)
        try:
            self._model = await self._backend.switch(name)
        except MlxctlError as error:
            self._opening_notice.set_message(f"{sentence(error)} /model chooses another model.", kind="error")
            await self._reopen(before)
        else:
            self._set_state("ready")
            self._opening_notice.set_message(ready_text(self._model))
        finally:
            self._opened.set()

    async def _reopen(self, before: BackendModel | None) -> None:
        """Open the former model again, if there was one."""
        try:
            self._model = await self._backend.open() if before is not None else None
        except MlxctlError:
            self._model = None
        self._set_state("ready" if self._model is not None else "no model")
        if self._model is not None:
            await self._transcript.add(Notice(f"{self._model.name} stays in use."))

    def _show_connection_status(self, text: str, kind: Kind) -> None:
        self._set_state("waiting for the server")
        self._opening_notice.set_message(text, kind=kind)

    @work(group="check", exclusive=True)
    async def _check(self) -> None:
        """Poll whether the server is reachable while nothing else runs."""
        if self._is_busy or self._model is None or self._state not in ("ready", DISCONNECTED):
            return
        try:
            await self._backend.check()
        except ServerUnreachable:
            state = DISCONNECTED
        except MlxctlError:
            # The server is reachable; the error is shown with the next question.
            return
        else:
            state = "ready"
        if not self._is_busy and self._state in ("ready", DISCONNECTED):
            self._set_state(state)

    def _show_status(self) -> None:
        model = self._model.name if self._model else "no model yet"
        metrics = self._throughput.metrics()
        if metrics.usage is not None:
            self._num_context_tokens = metrics.usage.num_prompt_tokens + metrics.usage.num_completion_tokens
        self.query_one(ChatHeader).show(model, self._conversation.title)
        self.query_one(StatusLine).show(
            Status(
                # A remote one is not known yet by its name.
                model=Path(self._backend.address).name if self._state == "loading" else model,
                state=self._state,
                seconds=time.monotonic() - self._state_since,
                metrics=metrics,
                num_context_tokens=self._num_context_tokens,
                context_length=self._model.context_length if self._model else None,
                has_tools=self._options.uses_tools and bool(self._tools.specs),
            )
        )


def _import_drawing() -> None:
    """Import modules for drawing answers, after the first frame."""
    from rich.syntax import Syntax

    from mlxctl.chat.widgets.markdown_segment import MarkdownSegment

    assert MarkdownSegment is not None, "imported for its dependencies"
    Syntax("pass", "python").highlight("pass")
