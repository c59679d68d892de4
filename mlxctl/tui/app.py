"""The application around the chat screen: what is the same on every screen, and how the partner ends."""

from textual.app import App

from mlxctl.tui.options import ChatOptions
from mlxctl.tui.partner import Partner
from mlxctl.tui.screens.chat import ChatScreen


class ChatApp(App[None]):
    """Runs one chat; `run()` returns when a person quits."""

    TITLE = "mlxctl chat"
    ENABLE_COMMAND_PALETTE = False
    # At the bottom they would cover the input and the numbers.
    CSS = "ToastRack { dock: top; align: right top; margin: 0; }"

    def __init__(self, partner: Partner, options: ChatOptions) -> None:
        super().__init__()
        self._partner = partner
        self._options = options

    def get_default_screen(self) -> ChatScreen:
        """The chat."""
        return ChatScreen(self._partner, self._options)

    async def on_unmount(self) -> None:
        """End the engine, or the connections."""
        await self._partner.close()
