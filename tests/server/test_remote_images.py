"""Images by URL with both SDKs, from a real server."""

import json
import socket
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx
import openai
import pytest

from tests import tiny_models
from tests.image_server import ImageServer, image_server

from .hosted import HostedServer, hosting
from .process import wait_for

MODEL = "seeing"
QUESTION = "What color is this?"


@pytest.fixture(scope="module")
def images() -> Iterator[ImageServer]:
    with image_server() as server:
        yield server


@pytest.fixture(scope="module")
def server(images: ImageServer) -> Iterator[HostedServer]:
    """A server that fetches from the image server only."""
    named = ["--model", str(tiny_models.trained("pixtral_colors")), "--name", MODEL]
    with hosting(
        None,
        *named,
        "--model",
        str(tiny_models.model("endless")),
        "--fetch-images",
        "--fetch-host",
        f"127.0.0.1:{images.port}",
        MLXCTL_VISION_FETCH_NETWORKS="127.0.0.1/32",
        MLXCTL_VISION_FETCH_HTTP="true",
    ) as running:
        yield running


@pytest.fixture(autouse=True)
def forget_requests(images: ImageServer) -> None:
    images.requests.clear()


def chat_messages(url: str) -> list[Any]:
    content = [{"type": "image_url", "image_url": {"url": url}}, {"type": "text", "text": QUESTION}]
    return [{"role": "user", "content": content}]


def anthropic_messages(url: str) -> list[Any]:
    image = {"type": "image", "source": {"type": "url", "url": url}}
    return [{"role": "user", "content": [image, {"type": "text", "text": QUESTION}]}]


@pytest.mark.parametrize(("name", "answer"), [("red", "Red."), ("blue", "Blue.")])
def test_image_url_of_chat_completions_is_seen(
    openai_client: openai.OpenAI, images: ImageServer, name: str, answer: str
) -> None:
    messages = chat_messages(f"http://127.0.0.1:{images.port}/{name}")
    whole = openai_client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, max_tokens=16
    )
    assert whole.choices[0].message.content == answer
    stream = openai_client.chat.completions.create(
        model=MODEL, messages=messages, temperature=0, max_tokens=16, stream=True
    )
    assert "".join(chunk.choices[0].delta.content or "" for chunk in stream) == answer


def test_image_url_of_responses_is_seen_and_fetched_again_for_the_next_turn(
    openai_client: openai.OpenAI, images: ImageServer
) -> None:
    image = {"type": "input_image", "image_url": f"http://127.0.0.1:{images.port}/red", "detail": "auto"}
    content: Any = [{"type": "input_text", "text": QUESTION}, image]
    first = openai_client.responses.create(
        model=MODEL, input=[{"role": "user", "content": content}], temperature=0, max_output_tokens=16
    )
    assert first.output_text == "Red."
    openai_client.responses.create(
        model=MODEL, previous_response_id=first.id, input="And now?", max_output_tokens=4
    )
    assert [path for path, _ in images.requests] == ["/red", "/red"]


def test_url_source_of_messages_is_seen_and_counted(
    anthropic_client: anthropic.Anthropic, images: ImageServer
) -> None:
    messages = anthropic_messages(f"http://127.0.0.1:{images.port}/blue")
    message = anthropic_client.messages.create(model=MODEL, messages=messages, max_tokens=16)
    assert [block.text for block in message.content if block.type == "text"] == ["Blue."]
    counted = anthropic_client.messages.count_tokens(model=MODEL, messages=messages)
    assert counted.input_tokens == message.usage.input_tokens + (message.usage.cache_read_input_tokens or 0)


def test_url_in_a_tool_result_is_seen(anthropic_client: anthropic.Anthropic, images: ImageServer) -> None:
    image = {"type": "image", "source": {"type": "url", "url": f"http://127.0.0.1:{images.port}/red"}}
    messages: list[Any] = [
        {"role": "user", "content": QUESTION},
        {"role": "assistant", "content": [{"type": "tool_use", "id": "t", "name": "look", "input": {}}]},
        {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t", "content": [image]}]},
    ]
    message = anthropic_client.messages.create(model=MODEL, messages=messages, max_tokens=16)
    assert message.usage.input_tokens > 20
    assert len(images.requests) == 1


def test_image_of_an_agent_is_seen(server: HostedServer, images: ImageServer) -> None:
    agent = httpx.post(f"{server.url}/v1/agents", json={"model": MODEL}, timeout=60).json()["id"]
    turn = {
        "messages": chat_messages(f"http://127.0.0.1:{images.port}/red"),
        "temperature": 0,
        "max_tokens": 16,
    }
    answer = httpx.post(f"{server.url}/v1/agents/{agent}/generate", json=turn, timeout=60)
    assert answer.json()["choices"][0]["message"]["content"] == "Red."
    num_fetched = len(images.requests)
    assert httpx.get(f"{server.url}/v1/agents/{agent}", timeout=60).status_code == 200
    assert len(images.requests) == num_fetched, "a look at the agent fetches nothing"


@pytest.mark.parametrize(
    ("url", "problem"),
    [
        ("http://127.0.0.1:{port}/page", "it is not an image of a known format"),
        ("http://127.0.0.1:1/red", "the server does not fetch from http://127.0.0.1:1"),
        ("http://localhost:{port}/red", "the server does not fetch from http://localhost:"),
        ("http://127.0.0.1:{port}/redirect?to=http://169.254.169.254/", "does not fetch from http://169.254"),
    ],
)
def test_refusal_names_the_field_in_the_protocol_of_the_caller(
    openai_client: openai.OpenAI,
    anthropic_client: anthropic.Anthropic,
    images: ImageServer,
    url: str,
    problem: str,
) -> None:
    where = url.format(port=images.port)
    with pytest.raises(openai.BadRequestError, match=problem) as refused:
        openai_client.chat.completions.create(model=MODEL, messages=chat_messages(where), max_tokens=4)
    assert refused.value.param == "messages[0].content[0].image_url.url"
    assert refused.value.code == "invalid_image_url"
    with pytest.raises(anthropic.BadRequestError, match=problem):
        anthropic_client.messages.create(model=MODEL, messages=anthropic_messages(where), max_tokens=4)


def test_nothing_is_fetched_for_a_model_that_reads_text_only(
    openai_client: openai.OpenAI, images: ImageServer
) -> None:
    messages = chat_messages(f"http://127.0.0.1:{images.port}/red")
    with pytest.raises(openai.BadRequestError, match="this model reads text only"):
        openai_client.chat.completions.create(
            model=tiny_models.model("endless").name, messages=messages, max_tokens=4
        )
    assert images.requests == []


def test_client_that_leaves_ends_the_fetch_and_others_go_on(
    server: HostedServer, openai_client: openai.OpenAI, images: ImageServer
) -> None:
    address = urlsplit(server.url)
    body = json.dumps(
        {"model": MODEL, "messages": chat_messages(f"http://127.0.0.1:{images.port}/slow"), "max_tokens": 4}
    ).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: localhost\r\ncontent-length: {len(body)}\r\n"
    num_broken = images.num_broken
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(head.encode() + b"content-type: application/json\r\n\r\n" + body)
        wait_for(lambda: images.requests, seconds=60)
        messages = chat_messages(f"http://127.0.0.1:{images.port}/blue")
        answer = openai_client.chat.completions.create(
            model=MODEL, messages=messages, temperature=0, max_tokens=16
        )
        assert answer.choices[0].message.content == "Blue."
        assert images.num_broken == num_broken, "the slow image is still being fetched"
    wait_for(lambda: images.num_broken > num_broken, seconds=5)


def test_fetches_are_counted(openai_client: openai.OpenAI, server: HostedServer, images: ImageServer) -> None:
    messages = chat_messages(f"http://127.0.0.1:{images.port}/red?token=secret")
    openai_client.chat.completions.create(model=MODEL, messages=messages, max_tokens=4)
    metrics = httpx.get(f"{server.url}/metrics", timeout=60).text
    assert 'mlxctl_image_fetches_total{outcome="fetched"}' in metrics
    assert "secret" not in metrics
