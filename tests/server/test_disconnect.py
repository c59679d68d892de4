"""A disconnect cancels the generation at any stage."""

import json
import socket
from urllib.parse import urlsplit

import httpx
import pytest

from .process import ServerProcess, wait_for


def ask(server: ServerProcess, path: str, *, stream: bool) -> socket.socket:
    """Send a request for a very long answer over a bare socket."""
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 20_000,
        "stream": stream,
    }
    payload = json.dumps(body).encode()
    address = urlsplit(server.url)
    connection = socket.create_connection((address.hostname, address.port), timeout=60)
    head = (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\ncontent-length: "
        f"{len(payload)}\r\n\r\n"
    )
    connection.sendall(head.encode() + payload)
    return connection


def num_running(server: ServerProcess) -> int:
    rows: int = server.health()["open_requests"]
    return rows


def state(server: ServerProcess) -> str | None:
    """Return the state of the last request."""
    requests = httpx.get(f"{server.url}/requests").json()["requests"]
    return requests[0]["state"] if requests else None


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_disconnect_cancels_a_stream(server: ServerProcess, path: str) -> None:
    connection = ask(server, path, stream=True)
    received = b""
    while received.count(b"data:") < 5:
        received += connection.recv(65536)
    assert num_running(server) == 1
    connection.close()
    wait_for(lambda: num_running(server) == 0, seconds=60)
    assert state(server) == "disconnected"


@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
def test_disconnect_cancels_a_whole_answer(server: ServerProcess, path: str) -> None:
    connection = ask(server, path, stream=False)
    wait_for(lambda: state(server) == "answering", seconds=60)
    connection.close()
    wait_for(lambda: num_running(server) == 0, seconds=60)
    assert state(server) == "disconnected"


def test_disconnect_does_not_affect_other_requests(server: ServerProcess) -> None:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 200,
        "stream": True,
    }
    with httpx.stream("POST", f"{server.url}/v1/chat/completions", json=body, timeout=30) as stays:
        lines = stays.iter_lines()
        assert next(lines).startswith("data:")
        ask(server, "/v1/messages", stream=True).close()
        answer = list(lines)
    assert "data: [DONE]" in answer
    assert sum('"content"' in line for line in answer) > 20
