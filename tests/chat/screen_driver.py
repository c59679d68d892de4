"""Drives the real application without a terminal and reads its screen."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from textual import events
from textual.app import App
from textual.pilot import Pilot
from textual.widgets import Input, TextArea

from mlxctl.chat.app import ChatApp
from mlxctl.chat.chat_backend import ChatBackend
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.tools.demo import DemoTools
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.tools.workspace import WorkspaceTools
from mlxctl.ir import ImagePart

Driver = Callable[["Screen"], Awaitable[None]]


class Screen:
    """One running application and its keys."""

    def __init__(self, app: App[None], pilot: "Pilot[None]") -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        """Press keys in sequence."""
        await self._pilot.press(*keys)

    async def ask(self, question: str) -> None:
        """Paste and send a question; typing takes much longer."""
        self.app.post_message(events.Paste(question))
        await self._pilot.pause()
        await self.press("enter")

    async def resize(self, width: int, height: int) -> None:
        """Change the terminal size."""
        await self._pilot.resize_terminal(width, height)

    async def wait_for(self, words: str, *, seconds: float = 60.0) -> str:
        """Wait until the screen shows `words`; return the screen."""
        deadline = asyncio.get_running_loop().time() + seconds
        while words not in (seen := self.text()):
            assert asyncio.get_running_loop().time() < deadline, f"{words!r} did not come:\n{seen}"
            await self._pilot.pause(0.02)
        return seen

    async def wait_gone(self, words: str, *, seconds: float = 60.0) -> None:
        """Wait until the screen no longer shows `words`."""
        deadline = asyncio.get_running_loop().time() + seconds
        while words in (seen := self.text()):
            assert asyncio.get_running_loop().time() < deadline, f"{words!r} did not go:\n{seen}"
            await self._pilot.pause(0.02)

    async def settle(self) -> None:
        """Wait until the screen stops changing; cursors stop blinking."""
        for field in [*self.app.screen.query(TextArea), *self.app.screen.query(Input)]:
            field.cursor_blink = False
        before = None
        while before != (before := self.text()):
            await self._pilot.pause(0.1)

    def text(self) -> str:
        """Return the screen as lines without colors."""
        width, height = self.app.size
        strips = self.app.screen._compositor.render_strips()
        return "\n".join(strip.text[:width].rstrip() for strip in strips[:height])


def built_in_tools(directory: Path = Path("/")) -> ToolBox:
    """Return the built-in tools with this working directory."""
    return ToolBox([DemoTools(), WorkspaceTools(directory)])


def mask_times_in(text: str) -> str:
    """Return the text with times and rates masked."""
    text = re.sub(r"\d+\.\d+ s\b", "#.# s", text)
    text = re.sub(r"[⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏]", "⠋", text)
    return re.sub(r"~?\d+ tok/s", "# tok/s", text)


def drive(
    backend: ChatBackend,
    driver: Driver,
    *,
    size: tuple[int, int] = (80, 24),
    autosave: SessionAutosave | None = None,
    conversation: Conversation | None = None,
    images: tuple[ImagePart, ...] = (),
    tools: ToolBox | None = None,
    **options: Any,
) -> None:
    """Run the chat with `backend` and hand its screen to `driver`."""

    async def play() -> None:
        setup = ChatSetup(
            backend=backend,
            options=ChatOptions(**options),
            autosave=autosave or SessionAutosave(None),
            conversation=conversation or Conversation(),
            attachments=images,
            tools=tools or built_in_tools(),
        )
        app = ChatApp(setup)
        async with app.run_test(size=size, notifications=True) as pilot:
            await driver(Screen(app, pilot))

    asyncio.run(play())
