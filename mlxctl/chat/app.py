"""The Textual application around the chat screen."""

from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from typing import cast

from textual import on
from textual.app import SystemCommand
from textual.screen import Screen

from mlxctl.chat.chat_commands import COMMANDS
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.messages import InterruptPressed, QuestionSubmitted
from mlxctl.chat.preferences import Preferences
from mlxctl.chat.screens.chat import ChatScreen
from mlxctl.chat.terminal_app import TerminalApp
from mlxctl.chat.widgets.chat_sidebar import ChatSidebar


class ChatApp(TerminalApp):
    """Application for one chat."""

    TITLE = "mlxctl chat"

    def __init__(self, setup: ChatSetup, *, preferences: Preferences | None = None) -> None:
        """Remembered sampling values fill what the options leave unset."""
        super().__init__(preferences)
        self._setup = replace(setup, options=self.preferences.sampling.beneath(setup.options))

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(self._setup)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """List what can be done now.

        Above a dialog these are only the application's own commands.
        """
        is_chat = isinstance(screen, ChatScreen)
        for command in COMMANDS:
            is_own = command.action.startswith("app.")
            can_run = is_own or (is_chat and screen.check_action("command", (command.action,)))
            if can_run and command.action != "app.command_palette":
                name = f"/{command.names[0]}"
                yield SystemCommand(
                    f"{name}  {command.help}",
                    f"Key: {command.display_keys}" if command.keys else "",
                    partial(screen.run_action, command.screen_action),
                )

    @on(QuestionSubmitted)
    async def submit(self, submitted: QuestionSubmitted) -> None:
        """Pass the input on to the chat, which is below all dialogs."""
        await self._chat.submit(submitted)

    @on(ChatSidebar.Chosen)
    async def continue_chat(self, chosen: ChatSidebar.Chosen) -> None:
        """Continue a saved chat, which may wait for the layout."""
        await self._chat.continue_saved(chosen.chat)

    @on(InterruptPressed)
    async def interrupt(self) -> None:
        """Stop the answer, also from a dialog that it opened."""
        await self._chat.action_interrupt()

    @property
    def _chat(self) -> ChatScreen:
        return cast("ChatScreen", self.screen_stack[0])

    async def on_unmount(self) -> None:
        """Close the backend and the saved chat."""
        await self._setup.tools.close()
        await self._setup.backend.close()
        await self._setup.autosave.close()
