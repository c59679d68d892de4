"""The application around the monitor alone."""

from collections.abc import Awaitable, Callable

from mlxctl.tui.preferences import Preferences
from mlxctl.tui.screens.monitor import MonitorScreen, Observe
from mlxctl.tui.terminal_app import TerminalApp


class MonitorApp(TerminalApp):
    """Runs until a person quits, and then awaits `close`."""

    TITLE = "mlxctl top"
    ENABLE_COMMAND_PALETTE = False

    def __init__(
        self,
        observe: Observe,
        *,
        where: str,
        interval_seconds: float,
        close: Callable[[], Awaitable[None]],
        preferences: Preferences | None = None,
    ) -> None:
        super().__init__(preferences)
        self._monitor = MonitorScreen(observe, where=where, interval_seconds=interval_seconds)
        self._close_source = close

    def get_default_screen(self) -> MonitorScreen:
        """The monitor."""
        return self._monitor

    async def on_unmount(self) -> None:
        """End the connections."""
        await self._close_source()
