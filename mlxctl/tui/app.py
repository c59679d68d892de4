"""The application around the chat screen: what is the same on every screen, and how the partner ends."""

from textual.app import App

from mlxctl.ir import ImagePart
from mlxctl.tui.conversation import Conversation
from mlxctl.tui.keeper import Keeper
from mlxctl.tui.options import ChatOptions
from mlxctl.tui.partner import Partner
from mlxctl.tui.screens.chat import ChatScreen


class ChatApp(App[None]):
    """Runs one chat; `run()` returns when a person quits."""

    TITLE = "mlxctl chat"
    ENABLE_COMMAND_PALETTE = False
    # At the bottom they would cover the input and the numbers.
    CSS = "ToastRack { dock: top; align: right top; margin: 0; }"

    def __init__(
        self,
        partner: Partner,
        options: ChatOptions,
        *,
        keeper: Keeper | None = None,
        conversation: Conversation | None = None,
        images: tuple[ImagePart, ...] = (),
    ) -> None:
        """`images` go with the first question."""
        super().__init__()
        self._images = images
        self._partner = partner
        self._options = options
        self._keeper = keeper or Keeper(None)
        self._conversation = conversation or Conversation()

    def get_default_screen(self) -> ChatScreen:
        """The chat."""
        return ChatScreen(self._partner, self._options, self._keeper, self._conversation, self._images)

    async def on_unmount(self) -> None:
        """End the engine, or the connections, and see that the chat is kept."""
        await self._partner.close()
        await self._keeper.close()
