"""Writes docs/assets/chat.svg and chat-recording.svg."""

import asyncio
import tempfile
import time
from pathlib import Path

from textual.pilot import Pilot
from textual.widgets import TextArea

from mlxctl.chat.app import ChatApp
from mlxctl.chat.chat_backend import LocalBackend
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.tools.demo import DemoTools
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.state.settings import LibrarySettings, Settings

from .terminal_svg import Frame, Row, draw, read_screen

_ASSETS = Path(__file__).parents[2] / "docs" / "assets"
_TITLE = "mlxctl chat"
_SIZE = (92, 28)
_FRAMES_PER_SECOND = 10
_KEY_SECONDS, _READING_SECONDS = 0.09, 3.0
_QUESTIONS = {
    "Hello!": "help you?",
    "What is 12*13? Use the calculator": "answer is: 156",
    "What time is it in Tokyo?": " JST",
}
"""Each question with words of its answer."""


class Recorder:
    """Collects the screens of an application while it runs."""

    def __init__(self, app: ChatApp) -> None:
        self._app = app
        self._began = time.monotonic()
        self._seen: list[tuple[float, tuple[Row, ...]]] = []

    async def record(self) -> None:
        """Read the screen many times a second, until cancelled."""
        while True:
            rows = read_screen(self._app)
            if not self._seen or self._seen[-1][1] != rows:
                self._seen.append((time.monotonic() - self._began, rows))
            await asyncio.sleep(1 / _FRAMES_PER_SECOND)

    def frames(self) -> list[Frame]:
        """Return the screens with their times."""
        ends = [*(start for start, _ in self._seen[1:]), time.monotonic() - self._began]
        return [Frame(rows, end - start) for (start, rows), end in zip(self._seen, ends, strict=True)]


async def _play(app: ChatApp, pilot: Pilot[None]) -> list[Frame]:
    """Ask the questions as a person does; return what the screen showed."""
    await _wait_for(app, "is ready")
    app.screen.query_one(TextArea).cursor_blink = False
    recorder = Recorder(app)
    recording = asyncio.create_task(recorder.record())
    await asyncio.sleep(1)
    for question, answer in _QUESTIONS.items():
        for key in question:
            await pilot.press("space" if key == " " else key)
            await asyncio.sleep(_KEY_SECONDS)
        await pilot.press("enter")
        await _wait_for(app, answer)
        await _wait_for(app, "mlxctl-demo  ready")
        await asyncio.sleep(_READING_SECONDS)
    recording.cancel()
    return recorder.frames()


async def _wait_for(app: ChatApp, words: str) -> None:
    while words not in "".join(text for row in read_screen(app) for text, _ in row):
        await asyncio.sleep(0.05)


async def _record(empty: Path) -> list[Frame]:
    settings = Settings(library=LibrarySettings(models_dirs=(empty,), hub_cache=empty))
    setup = ChatSetup(
        backend=LocalBackend(settings),
        options=ChatOptions(uses_tools=True, temperature=0.0),
        autosave=SessionAutosave(None),
        conversation=Conversation(),
        tools=ToolBox([DemoTools()]),
    )
    app = ChatApp(setup)
    async with app.run_test(size=_SIZE) as pilot:
        return await _play(app, pilot)


def main() -> None:
    """Write both files."""
    with tempfile.TemporaryDirectory() as empty:
        frames = asyncio.run(_record(Path(empty)))
    for name, shown in (("chat.svg", frames[-1:]), ("chat-recording.svg", frames)):
        text = draw(shown, title=_TITLE, columns=_SIZE[0])
        (_ASSETS / name).write_text(text, encoding="utf-8")
        print(f"{name}: {len(shown)} screens, {len(text):,} bytes")


if __name__ == "__main__":
    main()
