"""PDF files in the chat: read, sent by both backends, saved."""

from pathlib import Path

import msgspec
import pytest
from textual.widgets import Input

from mlxctl.chat.attachments import (
    MAX_ATTACHED_BYTES,
    describe_attached,
    read_attachments,
    with_document_tags,
)
from mlxctl.chat.chat_backend import BackendModel, LocalBackend
from mlxctl.chat.conversation import ChatOptions, Conversation
from mlxctl.chat.mentions import read_mentions
from mlxctl.chat.messages_json import from_messages, to_messages
from mlxctl.inference.remote.request_body import chat_body
from mlxctl.ir import DocumentPart, ImagePart, TextPart
from mlxctl.ir.errors import StoreError
from mlxctl.protocols.openai.chat_parsing import decode_chat, to_generation_request
from mlxctl.state.settings import ModelSettings, Settings
from tests import tiny_models
from tests.pdf_files import pdf
from tests.tiny_models.audio_samples import silence

from .screen_driver import Screen, drive
from .scripted_backend import ScriptedBackend, text

PDF = pdf("one two three four five six seven")
REPORT = DocumentPart(data=PDF, filename="a [b].pdf")


@pytest.fixture(autouse=True)
def directory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("a [b].pdf", "scan"):
        (tmp_path / name).write_bytes(PDF)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked() -> Conversation:
    conversation = Conversation()
    conversation.add_question("Sum it up", (REPORT,), shown="Sum it")
    return conversation


def test_pdf_files_are_attached_by_their_content() -> None:
    found = read_mentions('Compare @"a [b].pdf" and @scan.')
    assert found.text == 'Compare @"a [b].pdf" and @scan.'
    assert found.attachments == (REPORT, DocumentPart(data=PDF, filename="scan"))
    assert describe_attached(found.attachments) == "a [b].pdf, scan"


def test_too_large_and_unknown_files_are_named(directory: Path) -> None:
    (directory / "big.pdf").write_bytes(PDF.ljust(MAX_ATTACHED_BYTES // 2 + 1))
    (directory / "letter.docx").write_bytes(b"PK\x03\x04\x00")
    with pytest.raises(StoreError, match=r"would have 20\.0 MB in total; limit: 20 MB"):
        read_attachments([directory / "big.pdf"] * 2)
    with pytest.raises(StoreError, match=r"@letter\.docx is not a text, image, video, audio or PDF file"):
        read_mentions("@letter.docx")


def test_both_backends_send_what_the_chat_route_reads() -> None:
    request = asked().request("any", ChatOptions(), ())
    received = to_generation_request(decode_chat(msgspec.json.encode(chat_body(request))))
    assert received.messages == with_document_tags(request).messages
    assert received.messages[0].parts[1] == DocumentPart(data=PDF)


def test_audio_files_are_sent_and_saved(directory: Path) -> None:
    (directory / "clip.wav").write_bytes(silence(0.2))
    found = read_mentions("What is said in @clip.wav?")
    assert describe_attached(found.attachments) == "1 audio clip"
    conversation = Conversation()
    conversation.add_question(found.text, found.attachments)
    body = chat_body(conversation.request("any", ChatOptions(), ()))
    received = to_generation_request(decode_chat(msgspec.json.encode(body)))
    assert received.messages[0].parts == (*found.attachments, TextPart(text=found.text))
    assert tuple(from_messages(to_messages(conversation.messages))[1]) == conversation.messages
    deaf = BackendModel(name="scripted", supports_audio=False)
    assert deaf.rejection(found.attachments) == "scripted accepts no audio"


def test_saved_chat_keeps_files_and_marks() -> None:
    _, messages = from_messages(to_messages(asked().messages))
    assert tuple(messages) == asked().messages
    assert messages[0].shown == "Sum it"


def test_unreadable_files_are_rejected_before_they_are_sent() -> None:
    problem = "PDF files need pypdfium2 (pip install 'mlxctl[pdf]')"
    model = BackendModel(name="scripted", supports_images=False, document_problem=problem)
    backend = ScriptedBackend(text("Fine."), model=model)
    assert model.rejection([ImagePart(data=b"", media_type="image/png")]) == (
        "scripted accepts no images or videos"
    )

    async def interact(screen: Screen) -> None:
        await screen.wait_for("ready")
        await screen.ask('Read @"a [b].pdf"')
        await screen.wait_for("PDF files need pypdfium2")
        assert 'Read @"a [b].pdf"' in screen.text()

    drive(backend, interact)
    assert backend.requests == []


def test_own_engine_reads_the_pages() -> None:
    backend = LocalBackend(Settings(model=ModelSettings(path=tiny_models.model("endless"))))

    async def interact(screen: Screen) -> None:
        await screen.wait_for("is ready")
        await screen.press("f8")
        await screen.wait_for("Attach an image, video or PDF")
        screen.app.screen.query_one(Input).value = "a [b].pdf"
        await screen.press("enter")
        await screen.wait_for("with a [b].pdf")
        await screen.ask("Hi")
        assert "[a [b].pdf]" in await screen.wait_for("The answer was cut at 4 tokens")
        conversation = screen.app.screen._chat.conversation
        assert conversation.messages[-1].statistics.prompt_tokens > 30

    drive(backend, interact, max_tokens=4, size=(100, 30))
