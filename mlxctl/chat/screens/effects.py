"""Performs the effects of commands on the chat screen. UI thread only."""

import asyncio
from contextlib import suppress
from functools import partial
from typing import cast

from textual.app import SuspendNotSupported
from textual.content import Content
from textual.screen import Screen
from textual.worker import Worker, WorkerCancelled, get_current_worker

from mlxctl.chat.controller import effects as do
from mlxctl.chat.controller.asking import save
from mlxctl.chat.controller.controller import SUSPENDED, perform_all
from mlxctl.chat.controller.effects import Effect, Effects, Stopped
from mlxctl.chat.controller.state import ChatState
from mlxctl.chat.conversation import ChatEntry
from mlxctl.chat.external_editor import edit_text
from mlxctl.chat.gc_tuning import collect_all, collect_recent
from mlxctl.chat.history_loader import HistoryLoader
from mlxctl.chat.screens.answers import AnswerView
from mlxctl.chat.screens.dialogs import dialog_for
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.widgets.chat_sidebar import ChatSidebar
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.find_bar import FindBar
from mlxctl.chat.widgets.message_bar import MessageBar
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.queue_line import QueueLine
from mlxctl.chat.widgets.status_line import StatusLine
from mlxctl.chat.widgets.transcript import ChatTranscript
from mlxctl.ir.errors import ConnectionLost, MlxctlError, ServerUnreachable, StoreError
from mlxctl.terminal_text import escape_line

DISCONNECTED = "server not reachable"

_IDLE_SECONDS = 1.0


class ScreenEffects:
    """Runs commands on the chat screen.

    What takes long runs in a worker, and dialogs suspend a command, so that keys still work.
    """

    def __init__(self, screen: Screen[None], chat: ChatState, history: HistoryLoader) -> None:
        self._screen = screen
        self._chat = chat
        self._history = history
        self._answers = AnswerView(screen, chat, history)
        self._announcement = Notice("")
        self._stoppable: Worker[None] | None = None
        self._marked: ChatEntry | None = None
        self._could_stop = False
        self._stopped: Worker[None] | None = None
        self._is_cancelled = False

    async def run(self, effects: Effects, result: object = None) -> None:
        """Perform effects; `result` is that of the effect before."""
        await perform_all(effects, partial(self._perform, effects), result=result)
        if not self._is_closed:
            self.show_state()
            self._sidebar.reload()

    def show_state(self) -> None:
        """Show the queue, attachments, the edited question, the stop key."""
        chat = self._chat
        self._screen.query_one(QueueLine).show([queued.text for queued in chat.queue])
        # Not as markup: a file's name may have brackets.
        self._composer.border_title = Content(escape_line(chat.describe_input()))
        if self._marked is not chat.edited:
            self._marked = chat.edited
            self._transcript.select(chat.edited)
        if self._could_stop != chat.can_stop:
            self._could_stop = chat.can_stop
            self._screen.refresh_bindings()

    def select(self, entry: ChatEntry | None) -> None:
        """Select a loaded message; None ends the selection."""
        bar = self._screen.query_one(MessageBar)
        self._transcript.select(entry)
        if entry is not None:
            bar.open(entry, num_entries=len(self._chat.conversation.entries))
            return
        if self._screen.focused is bar:
            self._screen.set_focus(self._composer)
        bar.close()

    def show_sidebar(self, is_shown: bool) -> None:
        """Show or hide the list of chats, where there is room."""
        self._screen.set_class(is_shown and self._chat.autosave.is_enabled, "-with-sidebar")
        self._screen.call_after_refresh(self._sidebar.reload)

    async def announce(self, effect: do.Announce) -> None:
        """Show a notice about the model; a later one may replace it."""
        if effect.replaces:
            self._announcement.set_message(effect.text, kind=effect.kind)
        else:
            self._announcement = Notice(effect.text, kind=effect.kind)
            await self._transcript.add(self._announcement)

    def show_idle(self, *, is_reachable: bool = True) -> None:
        """Name the state in which nothing runs."""
        state = "ready" if is_reachable else DISCONNECTED
        self._status.set_state(state if self._chat.model is not None else "no model")

    async def _perform(self, effects: Effects, effect: Effect) -> object:
        """Return the result of an effect, or that it comes later."""
        if self._is_closed:
            return None
        match effect:
            case do.Confirm() | do.ChooseModel() | do.ChooseChat() | do.EditOptions() | do.AskPath():
                dialog = dialog_for(effect, self._chat)
                self._screen.app.push_screen(dialog, partial(self.run, effects))
                return SUSPENDED
            case do.Answer() | do.CallLong():
                worker = self._screen.run_worker(self._perform_long(effects, effect))
                if isinstance(effect, do.Answer):
                    self._screen.run_worker(self.run(save(self._chat)))
                if isinstance(effect, do.Answer) or effect.can_stop:
                    self._stoppable = worker
                return SUSPENDED
            case do.Copy():
                return self._app.copy_text(effect.text)
            case do.GoToSidebar():
                return self._go_to_sidebar()
            case do.ReadInput():
                return self._composer.question
            case do.Stop():
                await self._stop(effect)
            case do.Open() | do.SetTheme() | do.ShowStatistics() | do.RememberOptions():
                self._change_display(effect)
            case _:
                await self._show(effect)
        return None

    def _change_display(self, effect: do.Open | do.SetTheme | do.ShowStatistics | do.RememberOptions) -> None:
        match effect:
            case do.Open():
                self._open(effect)
            case do.SetTheme() if effect.name in self._app.available_themes:
                self._app.theme = effect.name
            case do.SetTheme():
                text = f"No theme {effect.name!r}. /theme lists the themes."
                self._screen.notify(text, severity="warning", markup=False)
            case do.ShowStatistics():
                self._transcript.set_class(not effect.is_shown, "-without-statistics")
                self._app.preferences.save_shows_statistics(effect.is_shown)
            case do.RememberOptions():
                self._app.preferences.save_sampling(effect.options)

    async def _show(self, effect: Effect) -> None:
        """Show a text, or a change of the input or the messages."""
        match effect:
            case do.Notify():
                self._screen.notify(effect.text, severity=effect.level, markup=False)
            case do.Write():
                await self._transcript.add(Notice(effect.text, kind=effect.kind))
            case do.Announce():
                await self.announce(effect)
            case do.SetInput():
                self._composer.set_text(effect.text)
            case do.Restore():
                self._composer.restore_question(effect.text)
            case do.AddToHistory():
                self._composer.add_to_history(effect.text)
            case do.Select(entry=None):
                self.select(None)
            case do.Select(entry=ChatEntry() as entry):
                await self._history.load_to(entry)
                self.select(entry)
                self._screen.set_focus(self._screen.query_one(MessageBar))
            case do.Edit():
                await self._history.load_to(effect.question)
                self._composer.set_text(effect.question.text)
                self._screen.set_focus(self._composer)
            case do.ShowChat():
                await self._history.replace(self._chat.conversation.messages)
                collect_all()
                await self._screen.run_worker(self._history.load_near()).wait()
            case do.Drop():
                await self._history.load_to(effect.entries[0])
                await self._transcript.drop(effect.entries)
            case do.DropBelow():
                await self._history.load_to(effect.entry)
                await self._transcript.drop_below(effect.entry)
            case do.Append():
                await self._history.append(effect.messages)
            case do.EndAnswer():
                await self._answers.end(effect)
            case _:
                raise AssertionError(f"{effect} cannot be shown")

    async def _perform_long(self, effects: Effects, effect: do.Answer | do.CallLong) -> None:
        """Perform in a worker what takes long, and continue the command."""
        can_stop = isinstance(effect, do.Answer) or effect.can_stop
        result: object = None
        is_stopped = False
        try:
            if isinstance(effect, do.Answer):
                await self._answers.draw(effect)
            else:
                self._status.set_state(effect.state)
                result = await effect.function()
        except asyncio.CancelledError:
            self._is_cancelled = get_current_worker() is not self._stopped
            if not can_stop:
                raise
            result, is_stopped = Stopped(), True
        except MlxctlError as error:
            result = error
        await self.run(effects, result)
        if not self._is_closed:
            # Otherwise the state names what the chat waits for.
            if self._chat.opened.is_set() and not self._chat.is_busy:
                self.show_idle(is_reachable=not isinstance(result, ServerUnreachable | ConnectionLost))
            self._screen.set_timer(_IDLE_SECONDS, self._collect_when_idle)
        if is_stopped:
            raise asyncio.CancelledError

    def _go_to_sidebar(self) -> bool:
        """Focus the list of chats; hide it, if it has the focus."""
        if not self._screen.has_class("-wide") or not self._chat.autosave.is_enabled:
            return False
        is_shown = self._screen.focused is not self._sidebar
        self.show_sidebar(is_shown)
        self._screen.set_focus(self._sidebar if is_shown else self._composer)
        self._app.preferences.save_shows_sidebar(is_shown)
        return True

    async def _stop(self, effect: do.Stop) -> None:
        if self._stoppable is None or not self._chat.is_busy:
            return
        self._stopped = self._stoppable
        self._stoppable.cancel()
        if effect.waits:
            with suppress(WorkerCancelled):
                await self._stoppable.wait()

    def _open(self, effect: do.Open) -> None:
        match effect.name:
            case "help":
                from mlxctl.chat.screens.help import HelpScreen

                self._app.push_screen(HelpScreen())
            case "monitor":
                from mlxctl.chat.screens.monitor import MonitorScreen

                backend = self._chat.backend
                self._app.push_screen(
                    MonitorScreen(
                        backend.observe, backend.cancel, backend.cached_entries, address=backend.address
                    )
                )
            case "find":
                self._screen.query_one(FindBar).open()
            case "theme":
                self._app.search_themes()
            case "editor":
                self._edit_outside()
            case "quit":
                self._app.exit()

    def _edit_outside(self) -> None:
        """Write the question in $VISUAL or $EDITOR. Raises StoreError."""
        text, failure = self._composer.question, None
        try:
            with self._app.suspend():
                # Textual does not resume after an exception.
                try:
                    text = edit_text(text)
                except StoreError as error:
                    failure = error
        except SuspendNotSupported:
            raise StoreError("No editor can be opened here.") from None
        if failure is not None:
            raise failure
        self._composer.set_text(text)

    def _collect_when_idle(self) -> None:
        if not self._chat.is_busy:
            collect_recent()

    @property
    def _is_closed(self) -> bool:
        """Whether the application ends: commands only save the chat then."""
        return self._is_cancelled or not self._screen.query(QueueLine)

    @property
    def _app(self) -> TerminalApp:
        return cast("TerminalApp", self._screen.app)

    @property
    def _composer(self) -> Composer:
        return self._screen.query_one(Composer)

    @property
    def _sidebar(self) -> ChatSidebar:
        return self._screen.query_one(ChatSidebar)

    @property
    def _status(self) -> StatusLine:
        return self._screen.query_one(StatusLine)

    @property
    def _transcript(self) -> ChatTranscript:
        return self._screen.query_one(ChatTranscript)
