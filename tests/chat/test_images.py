"""Images in the chat with a vision model, and error messages."""

import asyncio
import io
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from PIL import Image
from server.hosted import HostedServer, hosting
from textual.widgets import Input

from mlxctl.chat.attachments import MAX_ATTACHED_BYTES, read_attachments
from mlxctl.chat.chat_backend import LocalBackend, RemoteBackend
from mlxctl.chat.chat_setup import ChatSetup
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.plain_chat import PlainChat
from mlxctl.chat.plain_terminal import PlainTerminal
from mlxctl.chat.session_autosave import SessionAutosave
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.ir import ImagePart
from mlxctl.probe.image_check import one_color_png
from mlxctl.state.settings import ModelSettings, Settings
from mlxctl.state.stores import SessionStore
from tests import tiny_models

from .screen_driver import Screen, drive

QUESTION = "What color is this?"
TEXT_MODEL = tiny_models.model("endless").name


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    """A server with a vision model and a text model."""
    with hosting(
        None,
        "--model",
        str(tiny_models.trained("pixtral_colors")),
        "--model",
        str(tiny_models.model("endless")),
    ) as running:
        yield running


@pytest.fixture
def red(tmp_path: Path) -> Path:
    return write_png(tmp_path / "red.png", (220, 30, 30))


@pytest.fixture
def black(tmp_path: Path) -> Path:
    return write_png(tmp_path / "black.png", (15, 15, 15))


def write_png(path: Path, color: tuple[int, int, int]) -> Path:
    path.write_bytes(one_color_png(color))
    return path


async def attach(screen: Screen, path: Path | str) -> None:
    await screen.press("f8")
    await screen.wait_for("Attach an image, video or PDF (")
    screen.app.screen.query_one(Input).value = str(path)
    await screen.press("enter")
    await screen.wait_gone("Attach an image, video or PDF (")


def test_saved_chat_keeps_images_for_a_vision_model(
    server: HostedServer, tmp_path: Path, red: Path, black: Path
) -> None:
    """An engine of its own sees the first image, a server both."""
    own = LocalBackend(Settings(model=ModelSettings(path=tiny_models.trained("pixtral_colors"))))
    remote = RemoteBackend(server.url, model="pixtral_colors")

    async def ask(screen: Screen) -> None:
        await screen.wait_for("pixtral_colors is ready")
        await attach(screen, red)
        await screen.wait_for("with 1 image")
        await screen.ask(QUESTION)
        assert "[1 image]" in await screen.wait_for("Red.")

    async def go_on(screen: Screen) -> None:
        await screen.wait_for("pixtral_colors is ready")
        assert "[1 image]" in await screen.wait_for("Red.")
        await attach(screen, black)
        await screen.ask(QUESTION)
        await screen.wait_for("Black.")

    drive(own, ask, autosave=SessionAutosave(SessionStore(tmp_path / "chats.db")), temperature=0.0)
    autosave = SessionAutosave(SessionStore(tmp_path / "chats.db"))
    chat = Conversation(asyncio.run(autosave.load_last()).messages)
    assert chat.attachments == (ImagePart(data=red.read_bytes(), media_type="image/png"),)
    drive(remote, go_on, autosave=autosave, conversation=chat, temperature=0.0)


def test_text_model_rejects_images_and_continues(server: HostedServer, red: Path) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for(f"{TEXT_MODEL} is ready")
        await attach(screen, red)
        await screen.wait_for("accepts no images")
        assert "with 1 image" not in screen.text()
        await screen.ask("Hello")
        await screen.wait_for("The answer was cut at 8 tokens")

    drive(RemoteBackend(server.url, model=TEXT_MODEL), interact, max_tokens=8, size=(100, 30))


def test_attached_images_stay_when_the_model_rejects_them(server: HostedServer, red: Path) -> None:
    async def interact(screen: Screen) -> None:
        await screen.wait_for(f"{TEXT_MODEL} is ready")
        await screen.ask("Hello")
        await screen.wait_for("accepts no images")
        assert "with 1 image" in screen.text()
        await attach(screen, "")
        await screen.wait_gone("with 1 image")

    images = (ImagePart(data=red.read_bytes(), media_type="image/png"),)
    drive(RemoteBackend(server.url, model=TEXT_MODEL), interact, images=images, max_tokens=8, size=(100, 30))


def test_undecodable_image_returns_with_its_question(server: HostedServer, red: Path) -> None:
    red.write_bytes(red.read_bytes()[:60])

    async def interact(screen: Screen) -> None:
        await screen.wait_for("pixtral_colors is ready")
        await attach(screen, red)
        await screen.ask(QUESTION)
        await screen.wait_for("cannot be decoded: image file is")
        assert QUESTION in await screen.wait_for("with 1 image")

    drive(RemoteBackend(server.url, model="pixtral_colors"), interact, size=(100, 30))


def too_big(path: Path) -> Path:
    with path.open("wb") as file:
        file.write(one_color_png((1, 2, 3)))
        file.truncate(MAX_ATTACHED_BYTES + 1)
    return path


@pytest.mark.parametrize("kind", ["png", "jpeg", "gif", "webp", "bmp", "tiff", "avif"])
def test_image_of_every_decoded_format_can_be_attached(tmp_path: Path, kind: str) -> None:
    Image.new("RGB", (4, 4)).save(tmp_path / "image", kind)
    assert [image.media_type for image in read_attachments([tmp_path / "image"])] == [f"image/{kind}"]


def test_image_file_errors_are_distinguished(server: HostedServer, tmp_path: Path) -> None:
    (tmp_path / "notes.png").write_text("no image at all")
    half = write_png(tmp_path / "half.png", (1, 2, 3))
    with half.open("r+b") as file:
        file.truncate(MAX_ATTACHED_BYTES // 2 + 1)
    too_big(tmp_path / "big.png")

    async def interact(screen: Screen) -> None:
        await screen.wait_for("pixtral_colors is ready")
        notices = {
            "none.png": "No such file or directory",
            "notes.png": "is not a PNG, JPEG, GIF, WebP, BMP",
            "big.png": "is larger than 20 MB",
            "": "",
            "half.png": "with 1 image",
        }
        for name, text in notices.items():
            await attach(screen, tmp_path / name if name else "")
            await screen.wait_for(text)
        await attach(screen, half)
        await screen.wait_for("the attached files of this chat would have 20.0 MB")

    drive(RemoteBackend(server.url, model="pixtral_colors"), interact, size=(160, 40))


def chat(*arguments: str, typed: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mlxctl", "chat", "--plain", "--temperature", "0", *arguments]
    return subprocess.run(
        command, input=typed, capture_output=True, text=True, timeout=60, check=False, env=os.environ
    )


def test_plain_chat_sends_images_with_the_prompt(black: Path) -> None:
    run = chat(
        "--model", str(tiny_models.trained("pixtral_colors")), "--image", str(black), typed=f"{QUESTION}\n"
    )
    assert (run.returncode, run.stdout) == (0, "Black.\n")


class TerminalInput(io.StringIO):
    """Input lines that claim to come from a terminal."""

    def isatty(self) -> bool:
        return True


def test_plain_chat_continues_after_a_rejected_image(server: HostedServer, red: Path) -> None:
    red.write_bytes(red.read_bytes()[:60])
    source, answers, diagnostics = TerminalInput(f"{QUESTION}\n{QUESTION}\n"), io.StringIO(), io.StringIO()
    backend = RemoteBackend(server.url, model="pixtral_colors")
    setup = ChatSetup(
        backend=backend,
        options=ChatOptions(temperature=0),
        tools=ToolBox(),
        attachments=read_attachments([red]),
    )
    chat = PlainChat(setup, terminal=PlainTerminal(source, answers, diagnostics))
    assert asyncio.run(chat.run()) == 1
    assert answers.getvalue() == "I see no picture.\n"
    assert "cannot be decoded: image file is" in diagnostics.getvalue()


@pytest.mark.parametrize(
    ("model", "name", "words"),
    [
        (TEXT_MODEL, "red.png", f"{TEXT_MODEL} accepts no images"),
        ("pixtral_colors", "none.png", "No such file or directory"),
    ],
)
def test_plain_chat_exits_on_an_unusable_image(
    server: HostedServer, red: Path, model: str, name: str, words: str
) -> None:
    run = chat("--url", server.url, "--model", model, "--image", str(red.parent / name), typed="Hello\n")
    assert (run.returncode, run.stdout) == (1, "")
    assert words in run.stderr
    assert len(run.stderr.splitlines()) == 1
