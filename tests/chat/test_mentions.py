"""Files in a question: `@path`, its content, and completion."""

import asyncio
import os
import stat
from collections.abc import Iterator
from pathlib import Path

import pytest

from mlxctl.chat.attachments import read_attachment
from mlxctl.chat.conversation import ChatMessage
from mlxctl.chat.mentions import MAX_FILE_BYTES, complete_path, read_mentions
from mlxctl.chat.messages_json import from_messages, to_messages
from mlxctl.chat.tools.toolbox import ToolBox
from mlxctl.chat.tools.workspace import WorkspaceTools
from mlxctl.ir import ImagePart, Message, ToolCallPart, VideoPart
from mlxctl.ir.errors import StoreError

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, text
from .test_commands import send, typed

PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "notes.md").write_text("Some ```code``` here.\n")
    (tmp_path / "two words.txt").write_text("second")
    (tmp_path / "src").mkdir()
    (tmp_path / "src" / "main.py").write_text("print(1)\n")
    (tmp_path / "src" / "make.py").write_text("")
    (tmp_path / ".hidden").write_text("")
    (tmp_path / "red.png").write_bytes(PNG)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_content_of_files_follows_the_question() -> None:
    found = read_mentions('Explain @src/main.py, and @"two words.txt"!')
    assert found.text == (
        'Explain @src/main.py, and @"two words.txt"!\n\n'
        "src/main.py:\n```py\nprint(1)\n```\n\ntwo words.txt:\n```txt\nsecond\n```"
    )
    assert found.files == ("src/main.py", "two words.txt")


def test_fence_is_longer_than_any_in_the_file() -> None:
    assert "notes.md:\n````md\nSome ```code``` here.\n````" in read_mentions("@notes.md").text


def test_image_files_are_attached() -> None:
    found = read_mentions("What is on @red.png ?")
    assert found.text == "What is on @red.png ?"
    assert found.attachments == (ImagePart(data=PNG, media_type="image/png"),)


def test_videos_and_animations_are_attached(directory: Path) -> None:
    mp4, frame = b"\0\0\0\x18ftypisom", b"!\xf9\x04"
    (directory / "clip.mp4").write_bytes(mp4)
    (directory / "moving.gif").write_bytes(b"GIF89a" + 2 * frame)
    (directory / "still.gif").write_bytes(b"GIF89a" + frame)
    found = read_mentions("What happens in @clip.mp4 @moving.gif @still.gif ?").attachments
    assert [isinstance(one, VideoPart) for one in found] == [True, True, False]
    messages = to_messages([ChatMessage(message=Message(role="user", parts=found[:1]))])
    _, (read,) = from_messages(messages)
    assert read.message.parts[0] == found[0]


@pytest.mark.parametrize(
    ("question", "unknown"),
    [
        ("write to me@notes.md", ()),
        ("the @property decorator", ()),
        ("see @src/missing.py", ("src/missing.py",)),
        ("a @ b", ()),
        ("thanks @~nosuchuser", ()),
        ("see @~nosuchuser/notes.md", ("~nosuchuser/notes.md",)),
    ],
)
def test_other_words_with_at_signs_are_text(question: str, unknown: tuple[str, ...]) -> None:
    found = read_mentions(question)
    assert (found.text, found.files, found.unknown) == (question, (), unknown)


def test_pasted_text_names_no_files() -> None:
    assert read_mentions("pasted: @notes.md", shown="[paste 1: 1 line, 17 characters]").files == ()


@pytest.mark.parametrize(
    ("name", "reason"),
    [("src", "is a directory"), ("blob", "is not a text, image, video, audio or PDF file")],
)
def test_unreadable_file_is_an_error(directory: Path, name: str, reason: str) -> None:
    (directory / "blob").write_bytes(b"\x00\x01")
    with pytest.raises(StoreError, match=reason):
        read_mentions(f"@{name}")


@pytest.fixture
def endless(directory: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[int]:
    """Yield the other end of a "regular" file without end."""
    os.mkfifo(directory / "endless.txt")
    writer = os.open(directory / "endless.txt", os.O_RDWR | os.O_NONBLOCK)
    monkeypatch.setattr(stat, "S_ISREG", lambda mode: True)
    monkeypatch.setattr(Path, "is_file", lambda path: True)
    yield writer
    os.close(writer)


@pytest.mark.usefixtures("endless")
def test_a_file_without_end_is_not_waited_for() -> None:
    with pytest.raises(StoreError, match="may never end"):
        read_mentions("@endless.txt")
    with pytest.raises(StoreError, match="may never end"):
        read_attachment(Path("endless.txt"))
    call = ToolCallPart(id="c", name="read_file", arguments='{"path": "endless.txt"}')
    result = asyncio.run(ToolBox([WorkspaceTools(Path())]).run(call))
    assert (result.is_error, "may never end" in result.text) == (True, True)


def test_of_a_file_without_end_only_what_is_there_is_read(endless: int) -> None:
    os.write(endless, b"so far")
    assert "```txt\nso far\n```" in read_mentions("@endless.txt").text


def test_total_size_of_files_is_limited(directory: Path) -> None:
    (directory / "large.txt").write_text("x" * (MAX_FILE_BYTES - 3))
    assert len(read_mentions("@large.txt").text) > MAX_FILE_BYTES - 3
    with pytest.raises(StoreError, match="more than 1 MB"):
        read_mentions("@large.txt @notes.md")


def test_paths_are_completed_within_their_directory() -> None:
    assert complete_path("src/ma") == ["src/main.py", "src/make.py"]
    assert complete_path("s") == ["src/"]
    assert ".hidden" not in complete_path("")
    assert complete_path(".h") == [".hidden"]
    assert complete_path("nowhere/") == complete_path("~nosuchuser/") == []


def test_tab_completes_paths_and_commands_and_the_file_is_sent() -> None:
    backend = ScriptedBackend(text("It prints 1."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.press(*"/hel", "tab")
        assert typed(screen) == "/help "
        await screen.press("ctrl+u", *"explain", "space", *"@s", "tab", *"m", "tab")
        assert typed(screen) == "explain @src/ma"
        await screen.wait_for("@src/main.py  @src/make.py")
        await screen.press(*"i", "tab", "enter")
        await screen.wait_for("It prints 1.")

    drive(backend, interact)
    assert (
        backend.requests[0].messages[-1].text == "explain @src/main.py\n\nsrc/main.py:\n```py\nprint(1)\n```"
    )


def test_a_missing_file_is_asked_about_before_the_question_is_sent() -> None:
    backend = ScriptedBackend(text("I made that up."))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await send(screen, "read @nowhere.txt")
        await screen.wait_for("No file nowhere.txt")
        await screen.press("escape")
        await screen.wait_gone("No file nowhere.txt")
        assert (typed(screen), backend.requests) == ("read @nowhere.txt", [])
        await screen.press("enter")
        await screen.wait_for("No file nowhere.txt")
        await screen.press("enter")
        await screen.wait_for("I made that up.")

    drive(backend, interact)
