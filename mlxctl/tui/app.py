"""The Textual application around the chat screen."""

from collections.abc import Iterable
from functools import partial
from typing import cast

from textual import on
from textual.app import SystemCommand
from textual.screen import Screen

from mlxctl.ir import ImagePart
from mlxctl.tui.chat_backend import ChatBackend
from mlxctl.tui.chat_commands import COMMANDS
from mlxctl.tui.conversation import ChatOptions, Conversation
from mlxctl.tui.messages import QuestionSubmitted
from mlxctl.tui.preferences import Preferences
from mlxctl.tui.screens.chat import ChatScreen
from mlxctl.tui.session_autosave import SessionAutosave
from mlxctl.tui.terminal_app import TerminalApp
from mlxctl.tui.tools.toolbox import ToolBox


class ChatApp(TerminalApp):
    """Application for one chat."""

    TITLE = "mlxctl chat"

    def __init__(
        self,
        backend: ChatBackend,
        options: ChatOptions,
        *,
        autosave: SessionAutosave | None = None,
        conversation: Conversation | None = None,
        images: tuple[ImagePart, ...] = (),
        preferences: Preferences | None = None,
        tools: ToolBox,
    ) -> None:
        """`images` are attached to the first question.

        Remembered sampling values fill what `options` leave unset.
        """
        super().__init__(preferences)
        self._images = images
        self._backend = backend
        self._options = self.preferences.sampling.beneath(options)
        self._autosave = autosave or SessionAutosave(None)
        self._conversation = conversation or Conversation()
        self._tools = tools

    def get_default_screen(self) -> ChatScreen:
        return ChatScreen(
            self._backend,
            self._options,
            self._autosave,
            self._conversation,
            self._images,
            tools=self._tools,
        )

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """List the palette's commands; above a dialog only the application's own."""
        is_chat = isinstance(screen, ChatScreen)
        for command in COMMANDS:
            if command.action != "app.command_palette" and (is_chat or command.action.startswith("app.")):
                name = f"/{command.names[0]}"
                yield SystemCommand(
                    f"{name}  {command.help}",
                    f"Key: {command.display_keys}" if command.keys else "",
                    partial(screen.run_action, command.action),
                )

    @on(QuestionSubmitted)
    async def submit(self, submitted: QuestionSubmitted) -> None:
        """Pass the input on to the chat, which is below all dialogs."""
        await cast("ChatScreen", self.screen_stack[0]).submit(submitted)

    async def on_unmount(self) -> None:
        """Close the backend and the saved chat."""
        await self._tools.close()
        await self._backend.close()
        await self._autosave.close()
