"""Chat actions that do not generate: dialogs, other chats, models, files.

UI thread only. PERF: dialogs are imported when they open, after the first frame.
"""

import asyncio
import time
from abc import abstractmethod
from collections import deque
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TypeVar, cast

from textual.app import SuspendNotSupported
from textual.content import Content
from textual.screen import ModalScreen, Screen
from textual.worker import Worker

from mlxctl.chat.attachments import Attachment, check_is_file, describe_attached, read_attachments
from mlxctl.chat.chat_backend import BackendModel
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatMessage, ChatOptions, Conversation, QueuedQuestion
from mlxctl.chat.export import export, load_exported
from mlxctl.chat.external_editor import edit_text, editor_command
from mlxctl.chat.option_values import DEFAULT, describe_options, set_option
from mlxctl.chat.session_autosave import SavedChat
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.throughput_meter import ThroughputMeter
from mlxctl.chat.tools.toolbox import Tool, refusal
from mlxctl.chat.widgets.chat_sidebar import ChatSidebar
from mlxctl.chat.widgets.composer import Composer
from mlxctl.chat.widgets.find_bar import FindBar
from mlxctl.chat.widgets.notice import Notice
from mlxctl.chat.widgets.transcript import ChatTranscript
from mlxctl.ir import ToolCallPart, ToolResultPart
from mlxctl.ir.errors import StoreError
from mlxctl.terminal_text import escape_line

Answer = TypeVar("Answer")


class ChatActions(Screen[None]):
    """State of the chat screen and the actions that open dialogs.

    `ChatScreen` adds the conversation itself.
    """

    def __init__(self, setup: ChatSetup) -> None:
        super().__init__()
        self._tools = setup.tools
        self._backend = setup.backend
        self._options = setup.options
        self._autosave = setup.autosave
        self._conversation = setup.conversation
        self._attached = setup.images
        self._model: BackendModel | None = None
        self._opened = asyncio.Event()
        self._set_state("loading")
        self._reset_metrics(setup.conversation.num_context_tokens)
        self._answer_worker: Worker[None] | None = None
        self._queue: deque[QueuedQuestion] = deque()

    def _reset_metrics(self, num_context_tokens: int | None = None) -> None:
        """Forget the metrics of the last answer; the conversation is another one."""
        self._throughput = ThroughputMeter()
        self._num_context_tokens = num_context_tokens

    def action_sessions(self) -> None:
        """Choose a saved chat to continue."""
        from mlxctl.chat.screens.sessions import SessionsScreen

        self.app.push_screen(SessionsScreen(self._autosave), self.continue_saved)

    async def continue_saved(self, chat: SavedChat | None) -> None:
        """Continue a saved chat in place of this one; None changes nothing."""
        if chat is not None:
            await self._stop_and_save()
            self._autosave.continue_chat(chat)
            await self._show_saved(chat.system_prompt, chat.messages)

    def action_sidebar(self) -> None:
        """Focus the list of chats; hide it, if it has the focus."""
        sidebar = self.query_one(ChatSidebar)
        self._show_sidebar(self.focused is not sidebar)
        self.set_focus(sidebar if self.has_class("-with-sidebar") else self.query_one(Composer))
        cast("TerminalApp", self.app).preferences.save_shows_sidebar(self.has_class("-with-sidebar"))

    def _show_sidebar(self, is_shown: bool) -> None:
        self.set_class(is_shown and self._autosave.is_enabled, "-with-sidebar")
        self.call_after_refresh(self.query_one(ChatSidebar).reload)

    async def _load_file(self, path: Path) -> None:
        """Continue a conversation that was exported as .json, as a new chat."""
        try:
            check_is_file(path)
            system_prompt, messages = await asyncio.to_thread(load_exported, path)
        except StoreError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        await self._stop_and_save()
        self._autosave.start_new_chat()
        await self._show_saved(system_prompt, messages)

    async def _show_saved(self, system_prompt: str, messages: Sequence[ChatMessage]) -> None:
        self._options = replace(self._options, system_prompt=system_prompt)
        await self._show_conversation(Conversation(messages))

    def action_models(self) -> None:
        """Choose another model for the next question."""
        from mlxctl.chat.screens.models import ModelsScreen

        if self._can_switch:
            current = self._model.name if self._model is not None else ""
            self.app.push_screen(ModelsScreen(self._backend.list_models, current=current), self._switch_to)

    def action_monitor(self) -> None:
        """Open the monitor of the engine or server."""
        from mlxctl.chat.screens.monitor import MonitorScreen

        if self._model is None:
            self.notify("No server to monitor yet.", severity="warning")
            return
        self.app.push_screen(
            MonitorScreen(
                self._backend.observe,
                self._backend.cancel,
                self._backend.cached_entries,
                address=self._backend.address,
            )
        )

    def action_find(self) -> None:
        """Find text in this conversation."""
        self.query_one(FindBar).open()

    def action_help(self) -> None:
        from mlxctl.chat.screens.help import HelpScreen

        self.app.push_screen(HelpScreen())

    def action_theme(self) -> None:
        self.app.search_themes()

    def action_settings(self) -> None:
        """Change the options for the next questions.

        Sampling values hold for later chats too.
        """
        from mlxctl.chat.screens.settings import SettingsScreen

        def apply(options: ChatOptions | None) -> None:
            if options is not None:
                self._apply(options)

        self.app.push_screen(SettingsScreen(self._options, tools_note=self._tools_note()), apply)

    def _apply(self, options: ChatOptions) -> None:
        self._options = options
        cast("TerminalApp", self.app).preferences.save_sampling(options)

    def _set_option(self, text: str) -> None:
        """Apply `NAME VALUE` of `/set`."""
        try:
            self._apply(set_option(self._options, text))
        except ValueError as error:
            self.notify(str(error), severity="warning", markup=False)
        else:
            self.notify(f"Set: {describe_options(self._options) or 'all defaults'}", markup=False)

    async def action_system(self) -> None:
        """Show the system prompt; `/system TEXT` sets it."""
        prompt = self._options.system_prompt
        await self._transcript.add(
            Notice(f"System prompt: {prompt}" if prompt else "No system prompt. /system TEXT sets one.")
        )

    def _set_system_prompt(self, text: str) -> None:
        prompt = "" if text == DEFAULT else text
        self._options = replace(self._options, system_prompt=prompt)
        self.notify("The system prompt is set." if prompt else "The system prompt is removed.")

    def action_editor(self) -> None:
        """Write the question in $VISUAL or $EDITOR."""
        composer = self.query_one(Composer)
        command = editor_command()
        if command is None:
            self.notify("Set $EDITOR to the command of an editor.", severity="warning")
            return
        text, failure = composer.question, None
        try:
            with self.app.suspend():
                # Textual does not resume after an exception.
                try:
                    text = edit_text(command, text)
                except StoreError as error:
                    failure = error
        except SuspendNotSupported:
            self.notify("No editor can be opened here.", severity="error")
            return
        if failure is not None:
            self.notify(str(failure), severity="error", markup=False)
        else:
            composer.set_text(text)

    def action_export(self) -> None:
        """Export the conversation to a file."""
        from mlxctl.chat.screens.path import PathScreen

        if not self._conversation.messages:
            self.notify("There is nothing to export yet.", severity="warning")
            return
        hint = ".md: text to read. .json: OpenAI messages; `mlxctl chat --open FILE` continues them."
        proposal = time.strftime("chat-%Y%m%d-%H%M%S.md")
        self.app.push_screen(
            PathScreen("Export (Enter saves, Esc cancels)", proposal=proposal, hint=hint), self._export
        )

    def action_attach(self) -> None:
        """Attach an image or a PDF to the next question."""
        from mlxctl.chat.screens.path import PathScreen

        hint = "PNG, JPEG, GIF, WebP, BMP, TIFF, AVIF, HEIC or PDF. Leave empty to remove attached files."
        self.app.push_screen(
            PathScreen("Attach an image or a PDF (Enter attaches, Esc cancels)", hint=hint), self._attach_file
        )

    async def _run_with_argument(self, action: str, argument: str) -> None:
        """Run a slash command with an argument, without a dialog."""
        match action:
            case "models":
                if self._can_switch:
                    self._switch_to(argument)
            case "attach":
                self._attach_file(Path(argument))
            case "export":
                self._export(Path(argument))
            case "sessions":
                await self._load_file(Path(argument))
            case "settings":
                self._set_option(argument)
            case "system":
                self._set_system_prompt(argument)
            case "theme":
                self._set_theme(argument)
            case "tools":
                self._set_option(f"tools {argument}")

    def _set_theme(self, name: str) -> None:
        if name in self.app.available_themes:
            self.app.theme = name
        else:
            self.notify(f"No theme {name!r}. /theme lists the themes.", severity="warning", markup=False)

    def _switch_to(self, name: str | None) -> None:
        if name is not None:
            self._opened.clear()
            self._switch(name)

    @property
    def _can_switch(self) -> bool:
        """Whether a model can be loaded now; notifies the user if not."""
        if not self._can_change:
            return False
        if not self._opened.is_set():
            self.notify("A model is still loading.", severity="warning")
        return self._opened.is_set()

    @property
    def _can_change(self) -> bool:
        """Whether no answer is in progress; notifies the user if one is."""
        if self._is_busy:
            self.notify("An answer is in progress. Esc stops it.", severity="warning")
        return not self._is_busy

    def _set_state(self, state: str) -> None:
        """Set the state that the status line shows."""
        self._state = state
        self._state_since = time.monotonic()

    def action_scroll(self, pages: int) -> None:
        """Scroll by pages; at the end the transcript follows new text again."""
        if pages < 0:
            self._transcript.scroll_page_up(animate=False)
        else:
            self._transcript.scroll_page_down(animate=False)

    def action_follow(self) -> None:
        """Scroll to the end and follow new text."""
        self._transcript.anchor()

    @abstractmethod
    async def _stop_and_save(self) -> None:
        """Cancel a running answer and save the conversation."""

    @abstractmethod
    async def _show_conversation(self, conversation: Conversation) -> None:
        """Replace the conversation on the screen."""

    @abstractmethod
    def _switch(self, name: str) -> Worker[None]:
        """Load another model; return the worker that does."""

    @property
    def _transcript(self) -> ChatTranscript:
        return self.query_one(ChatTranscript)

    @property
    def _is_busy(self) -> bool:
        return self._answer_worker is not None and not self._answer_worker.is_finished

    @property
    def _is_waiting_for_tools(self) -> bool:
        return self._model is not None and bool(self._tools.opening)

    def _attach_file(self, path: Path | None) -> None:
        if path is None:
            self._show_attached(())
            return
        try:
            existing = (*self._conversation.images, *self._attached)
            attached = (*self._attached, *read_attachments([path], existing=existing))
        except StoreError as error:
            self.notify(str(error), severity="error", markup=False)
            return
        if reason := self._rejection(attached):
            self.notify(reason, severity="error", markup=False)
        else:
            self._show_attached(attached)

    def _rejection(self, attached: Sequence[Attachment]) -> str | None:
        """Return why the model rejects attachments, with a remedy; else None."""
        reason = self._model.rejection(attached) if self._model is not None else None
        if reason is None or self._model is None:
            return None
        is_of_model = reason != self._model.document_problem
        return f"{reason}. /model chooses another model." if is_of_model else f"{reason}."

    def _take_attached(self) -> tuple[Attachment, ...]:
        images = self._attached
        self._show_attached(())
        return images

    def _show_attached(self, images: tuple[Attachment, ...]) -> None:
        self._attached = images
        # Not as markup: a file's name may have brackets.
        self.query_one(Composer).border_title = Content(escape_line(self._describe_input()))

    def _describe_input(self) -> str:
        """Return what the next question has besides its text."""
        return f"with {describe_attached(self._attached)}" if self._attached else ""

    async def _confirm_call(self, call: ToolCallPart, tool: Tool | None) -> ToolResultPart | None:
        """Ask the user about a tool call; None runs it."""
        from mlxctl.chat.screens.tool_approval import ToolApprovalScreen
        from mlxctl.chat.screens.tool_call import ToolCallScreen

        if tool is None or not tool.needs_approval:
            return await self._ask_user(ToolCallScreen(call, tool))
        decision = await self._ask_user(ToolApprovalScreen(call, tool))
        if decision == "always":
            self._tools.allow(call.name)
        return refusal(call) if decision in (None, "refuse") else None

    async def _ask_user(self, screen: ModalScreen[Answer]) -> Answer | None:
        """Return the answer of a dialog; stopping the answer closes it."""
        decided: asyncio.Future[Answer | None] = asyncio.get_running_loop().create_future()
        self._set_state("waiting for you")
        self.app.push_screen(screen, decided.set_result)
        try:
            return await decided
        finally:
            self._set_state("answering")
            # Stopping the answer cancels the future.
            if screen.is_current and (decided.cancelled() or not decided.done()):
                self.app.pop_screen()

    def _export(self, path: Path | None) -> None:
        if path is None:
            return
        model = self._model.name if self._model else "no model"
        try:
            export(path, self._conversation.messages, model=model, system_prompt=self._options.system_prompt)
        except StoreError as error:
            self.notify(str(error), severity="error", markup=False)
        else:
            self.notify(f"Saved to {path}", markup=False)

    def _tools_note(self) -> str:
        if self._model is not None and self._model.supports_tools is False:
            return f"{self._model.name} cannot call tools: its chat template does not offer them."
        return f"{self._tools.summary}. Calls that act outside the chat ask first. /tools lists them."

    async def action_tools(self) -> None:
        """List the tools and their sources; `/tools on` offers them."""
        await self._transcript.add(Notice(self._tools.describe(is_offered=self._options.uses_tools)))

    def action_statistics(self) -> None:
        """Show or hide the statistics below answers, also in later chats."""
        is_hidden = not self._transcript.has_class("-without-statistics")
        self._show_statistics(not is_hidden)
        cast("TerminalApp", self.app).preferences.save_shows_statistics(not is_hidden)
        self.notify(f"Statistics are {'hidden' if is_hidden else 'shown'} below answers.")

    def _show_statistics(self, is_shown: bool) -> None:
        self._transcript.set_class(not is_shown, "-without-statistics")
