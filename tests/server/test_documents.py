"""PDFs with both SDKs."""

import zlib
from base64 import b64encode
from collections.abc import Iterator
from typing import Any

import anthropic
import httpx
import openai
import pytest

from tests import tiny_models
from tests.pdf_files import pdf

from .hosted import HostedServer, hosting

READER = "endless"
SEEING = "pixtral_colors"
FILE = b64encode(pdf("The codeword is swordfish.")).decode()


@pytest.fixture(scope="module")
def server() -> Iterator[HostedServer]:
    """A server for a text model and a vision model."""
    reader, seeing = (str(tiny_models.model("endless")), str(tiny_models.trained("pixtral_colors")))
    with hosting(None, "--model", reader, "--name", READER, "--model", seeing) as running:
        yield running


def chat_messages(data: str) -> list[Any]:
    file = {"type": "file", "file": {"filename": "r.pdf", "file_data": f"data:application/pdf;base64,{data}"}}
    return [{"role": "user", "content": [file, {"type": "text", "text": "Which codeword?"}]}]


def prompt(server: HostedServer, messages: list[Any], model: str = READER) -> str:
    """Return the prompt of a conversation."""
    answer = httpx.post(
        f"{server.url}/apply-template", json={"model": model, "messages": messages}, timeout=60
    )
    assert answer.status_code == 200, answer.text
    return str(answer.json()["prompt"])


def test_text_of_a_pdf_is_in_the_prompt(server: HostedServer) -> None:
    rendered = prompt(server, chat_messages(FILE))
    assert '<document title="r.pdf">\n<page number="1">\nThe codeword is swordfish.\n</page>' in rendered


def test_model_list_says_that_pdfs_are_read(server: HostedServer) -> None:
    found = httpx.get(f"{server.url}/v1/models/{READER}").json()["capabilities"]
    assert found["pdf_input"] == {"supported": True}
    thinks = found["thinking"]["supported"]
    assert {kind["supported"] for kind in found["thinking"]["types"].values()} == {thinks}


def test_both_sdks_send_pdfs(openai_client: openai.OpenAI, anthropic_client: anthropic.Anthropic) -> None:
    chat = openai_client.chat.completions.create(model=READER, messages=chat_messages(FILE), max_tokens=4)
    file = {"type": "input_file", "filename": "r.pdf", "file_data": f"data:application/pdf;base64,{FILE}"}
    asked: Any = [{"role": "user", "content": [file, {"type": "input_text", "text": "Which codeword?"}]}]
    response = openai_client.responses.create(model=READER, input=asked, max_output_tokens=16)
    source = {"type": "base64", "media_type": "application/pdf", "data": FILE}
    block = {"type": "document", "title": "r.pdf", "source": source}
    messages: list[Any] = [{"role": "user", "content": [block, {"type": "text", "text": "Which codeword?"}]}]
    message = anthropic_client.messages.create(model=READER, messages=messages, max_tokens=4)
    counted = anthropic_client.messages.count_tokens(model=READER, messages=messages)
    assert chat.usage is not None
    assert response.usage is not None
    assert chat.usage.prompt_tokens == response.usage.input_tokens == counted.input_tokens
    num_read = message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)
    assert num_read == counted.input_tokens


def test_vision_model_sees_the_pages(openai_client: openai.OpenAI, server: HostedServer) -> None:
    rendered = prompt(server, chat_messages(FILE), SEEING)
    assert (rendered.count("[IMG]"), rendered.count("swordfish")) == (1, 1)
    answer = openai_client.chat.completions.create(model=SEEING, messages=chat_messages(FILE), max_tokens=4)
    assert answer.usage is not None


def test_guardrails_apply_to_the_text_of_a_pdf(server: HostedServer) -> None:
    rules = {"blocklist": ["swordfish"], "apply_to": ["input"]}
    assert httpx.put(f"{server.url}/admin/guardrails", json=rules, timeout=60).is_success
    try:
        answer = httpx.post(
            f"{server.url}/v1/chat/completions",
            json={"model": READER, "messages": chat_messages(FILE), "max_tokens": 4},
            timeout=60,
        )
    finally:
        httpx.put(f"{server.url}/admin/guardrails", json={}, timeout=60)
    assert answer.status_code == 400
    assert "does not accept" in answer.text


def test_file_that_unpacks_to_too_much_fails_alone(openai_client: openai.OpenAI) -> None:
    drawn = zlib.compress(b"BT /F 1 Tf 1 1 Td " + b"(aaaaaaaaaaaaaaaaaaaaaaaaaaaaaa) Tj " * 300_000 + b"ET")
    page = pdf(b"@").replace(
        b"<</Length 1>>stream\n@", b"<</Length %d/Filter/FlateDecode>>stream\n%b" % (len(drawn), drawn)
    )
    # On a busy machine the limit of a request's preparation ends first.
    limits = "takes too much memory or time, or cannot be read|exceeded the limit of 20 seconds"
    with pytest.raises(openai.BadRequestError, match=limits):
        openai_client.chat.completions.create(
            model=READER, messages=chat_messages(b64encode(page).decode()), max_tokens=4
        )
    answer = openai_client.chat.completions.create(model=READER, messages=chat_messages(FILE), max_tokens=4)
    assert answer.usage is not None


@pytest.mark.parametrize("data", ["data:text/plain;base64,QUFB", "https://example.org/r.pdf", "QUFB"])
def test_file_that_is_no_pdf_is_refused_by_name(openai_client: openai.OpenAI, data: str) -> None:
    messages: Any = [{"role": "user", "content": [{"type": "file", "file": {"file_data": data}}]}]
    with pytest.raises(openai.BadRequestError, match="must be a data URL of a PDF") as refused:
        openai_client.chat.completions.create(model=READER, messages=messages, max_tokens=4)
    assert refused.value.param == "messages[0].content[0].file.file_data"
