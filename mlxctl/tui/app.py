"""The application around the chat screen: its command palette, and how the partner ends."""

from collections.abc import Iterable
from functools import partial

from textual.app import SystemCommand
from textual.screen import Screen

from mlxctl.ir import ImagePart
from mlxctl.tui.conversation import Conversation
from mlxctl.tui.keeper import Keeper
from mlxctl.tui.keys import COMMANDS
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.partner import Partner
from mlxctl.tui.preferences import Preferences
from mlxctl.tui.screens.chat import ChatScreen
from mlxctl.tui.terminal_app import TerminalApp


class ChatApp(TerminalApp):
    """Runs one chat until a person quits."""

    TITLE = "mlxctl chat"

    def __init__(
        self,
        partner: Partner,
        options: ChatOptions,
        *,
        keeper: Keeper | None = None,
        conversation: Conversation | None = None,
        images: tuple[ImagePart, ...] = (),
        preferences: Preferences | None = None,
    ) -> None:
        """`images` go with the first question."""
        super().__init__(preferences)
        self._images = images
        self._partner = partner
        self._options = options
        self._keeper = keeper or Keeper(None)
        self._conversation = conversation or Conversation()

    def get_default_screen(self) -> ChatScreen:
        """The chat."""
        return ChatScreen(self._partner, self._options, self._keeper, self._conversation, self._images)

    def get_system_commands(self, screen: Screen[object]) -> Iterable[SystemCommand]:
        """List the commands of the chat; above another screen only what works there."""
        is_chat = isinstance(screen, ChatScreen)
        for command in COMMANDS:
            if command.action != "app.command_palette" and (is_chat or command.action.startswith("app.")):
                name = f"/{command.names[0]}"
                yield SystemCommand(
                    f"{name}  {command.help}", f"Key: {command.shown_as}", partial(screen.run_action, command.action)
                )

    async def on_unmount(self) -> None:
        """Close the engine or the connections, and save the chat."""
        await self._partner.close()
        await self._keeper.close()
