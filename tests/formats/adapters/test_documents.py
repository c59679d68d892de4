"""PDFs become text, and pictures for models that take images."""

import io
import signal
import subprocess
import sys

import numpy as np
import pytest
from PIL import Image

from mlxctl.formats.adapters.media.documents import read_documents
from mlxctl.formats.adapters.media.pdf_files import read_pdf
from mlxctl.ir import DocumentPart, ImagePart, Message, TextPart, ToolResultPart
from mlxctl.ir.errors import InvalidRequest
from mlxctl.state.installed import EXTRAS
from tests.pdf_files import RED_PAGE, pdf


def asked(*parts: DocumentPart | ImagePart) -> Message:
    return Message(role="user", parts=parts)


def document(data: bytes) -> DocumentPart:
    return DocumentPart(data=data, param="file")


def read(data: bytes, *, takes_images: bool = False) -> Message:
    return read_documents([asked(document(data))], takes_images=takes_images)[0]


def test_text_of_each_page_is_read() -> None:
    message = read(pdf("One fish", "Two fish"))
    assert message.text == '<page number="1">\nOne fish\n</page>\n<page number="2">\nTwo fish\n</page>\n'
    assert message.num_images == 0


def test_pages_have_pictures_for_a_model_that_takes_images() -> None:
    message = read(pdf("One fish", RED_PAGE), takes_images=True)
    assert "One fish" in message.text
    pictures = [part for part in message.parts if isinstance(part, ImagePart)]
    assert len(pictures) == 2
    red = Image.open(io.BytesIO(pictures[1].data)).convert("RGB")
    assert max(red.size) == 1024
    assert np.asarray(red).reshape(-1, 3).mean(axis=0) == pytest.approx([219, 31, 31], abs=2)


def test_pictures_stop_at_the_images_that_a_request_may_have() -> None:
    image = ImagePart(data=b"", media_type="image/png")
    messages = read_documents([asked(*[image] * 14, document(pdf("a", "b", "c", "d")))], takes_images=True)
    assert messages[0].num_images == 16
    assert 'number="4">\nd\n' in messages[0].text


def test_pages_of_all_documents_are_counted_together() -> None:
    many = document(pdf(*["x"] * 60))
    with pytest.raises(InvalidRequest, match="the documents of a request may have 100 together") as caught:
        read_documents([asked(many), asked(many)], takes_images=False)
    assert caught.value.param == "file"


@pytest.mark.parametrize(
    ("data", "problem"),
    [
        (b"no file at all", "file cannot be read as PDF"),
        (pdf("One")[:200], "file cannot be read as PDF"),
        (pdf(RED_PAGE), "file has no text, only pictures, and this model reads text only"),
    ],
)
def test_file_that_cannot_be_read_is_refused_in_a_question_and_noted_in_a_result(
    data: bytes, problem: str
) -> None:
    with pytest.raises(InvalidRequest, match=problem):
        read(data)
    result = ToolResultPart(call_id="c", content=(TextPart(text="Found:"), document(data)))
    (message,) = read_documents([Message(role="tool", parts=(result,))], takes_images=False)
    assert message.tool_results[0].text.startswith(f"Found:\nThis document was not read: {problem}")


def test_process_ends_when_a_file_takes_too_long() -> None:
    limited = (
        "import zlib\n"
        "from mlxctl.formats.adapters.media import pdf_files\n"
        "from tests.pdf_files import pdf\n"
        "drawn = zlib.compress(b'BT ' + b'1 ' * 20_000_000 + b'ET')\n"
        "old, new = b'<</Length 1>>stream\\n@', b'<</Length %d/Filter/FlateDecode>>stream\\n%b'\n"
        "page = pdf(b'@').replace(old, new % (len(drawn), drawn))\n"
        "pdf_files._MAX_CPU_SECONDS = 0.05\n"
        "pdf_files.read_pdf(page, 'file', max_pages=1, max_pictures=0)\n"
    )
    assert subprocess.run([sys.executable, "-c", limited], check=False).returncode == -signal.SIGPROF


def test_limit_of_the_process_stays_after_a_file() -> None:
    signal.setitimer(signal.ITIMER_PROF, 1000)
    try:
        read_pdf(pdf("One"), "file", max_pages=1, max_pictures=0)
        left, _ = signal.getitimer(signal.ITIMER_PROF)
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    assert 900 < left < 1001


def test_missing_extra_is_named_with_its_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(EXTRAS, "pdf", {"no_such_module": "pypdfium2"})  # type: ignore[misc]
    with pytest.raises(InvalidRequest, match=r"file is a PDF, which needs .*pip install 'mlxctl\[pdf\]'"):
        read(pdf("One"))
