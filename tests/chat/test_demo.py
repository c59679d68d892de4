"""The chat with real models: a local engine and a remote server."""

import re
import shutil
from html import escape
from pathlib import Path

from server.process import ServerProcess, serving

from mlxctl.chat.chat_backend import LocalBackend, RemoteBackend
from mlxctl.state.settings import LibrarySettings, Settings
from tests import tiny_models
from tools.chat_recording.terminal_svg import read_screen

from .screen_driver import Screen, drive


async def chat_with_the_demo(screen: Screen) -> None:
    await screen.wait_for("mlxctl-demo is ready, context")
    await screen.ask("Hello!")
    seen = await screen.wait_for("mlxctl-demo  ready  ")
    assert re.search(r"Hello! How can I help you\?", seen)
    assert re.search(
        r"mlxctl-demo {2}ready {2}context \d+/8\.2k {2}\d+ tok/s {2}first \d+\.\d\d s {2}cached \d+%", seen
    )


def test_demo_model_answers_in_the_chat(demo_server: ServerProcess) -> None:
    drive(RemoteBackend(demo_server.url), chat_with_the_demo, temperature=0.0)


def test_recording_of_the_docs_begins_with_the_first_screen(demo_server: ServerProcess) -> None:
    recording = (Path(__file__).parents[2] / "docs" / "assets" / "chat-recording.svg").read_text()

    async def interact(screen: Screen) -> None:
        await screen.wait_for("mlxctl-demo  ready")
        await screen.settle()
        texts = {text.strip() for row in read_screen(screen.app) for text, _ in row}
        missing = [text for text in texts if escape(text, quote=False) not in recording]
        assert missing == [], "run: python -m tools.chat_recording"

    drive(RemoteBackend(demo_server.url), interact, size=(92, 28), uses_tools=True)


def test_killed_server_leaves_the_partial_answer() -> None:
    with serving(tiny_models.model("endless")) as doomed:

        async def interact(screen: Screen) -> None:
            await screen.wait_for("is ready")
            await screen.ask("Tell me a story")
            await screen.wait_for("answering  ~")
            doomed.process.kill()
            await screen.wait_for("^R retries")

        drive(RemoteBackend(doomed.url), interact)


async def go_on_after_an_unknown_model(screen: Screen) -> None:
    await screen.ask("/model nope")
    await screen.wait_for("mlxctl-demo stays in use.")
    await screen.wait_for("mlxctl-demo  ready")


def test_unknown_model_of_a_server_leaves_the_former_one(demo_server: ServerProcess) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for("mlxctl-demo is ready")
        await go_on_after_an_unknown_model(screen)
        await chat_with_the_demo(screen)

    drive(RemoteBackend(demo_server.url), interact, temperature=0.0)


def test_local_engine_switches_models_within_a_chat(tmp_path: Path) -> None:
    shutil.copytree(tiny_models.model("endless"), tmp_path / "org" / "endless")
    settings = Settings(library=LibrarySettings(models_dirs=(tmp_path,), hub_cache=tmp_path / "none"))

    async def take_another(screen: Screen) -> None:
        # Models cannot be switched during an answer, so this waits for its end.
        await chat_with_the_demo(screen)
        await go_on_after_an_unknown_model(screen)
        await screen.press("f4")
        await screen.wait_for("org/endless")
        await screen.settle()
        await screen.press("down", "enter")
        assert "help you?" in await screen.wait_for("endless is ready")
        await screen.ask("Go on")
        await screen.wait_for("endless  answering")
        await screen.press("escape")
        await screen.wait_for("Stopped")

    drive(LocalBackend(settings), take_another, size=(100, 30), temperature=0.0)
