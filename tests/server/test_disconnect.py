"""A disconnect cancels the generation at any stage."""

import asyncio
import json
import socket
from typing import Any
from urllib.parse import urlsplit

import httpx
import pytest
from falcon.asgi import App, Request, Response
from falcon.testing import create_scope

from mlxctl.server.http.disconnect import DisconnectWatch
from mlxctl.server.middleware.authentication import UNAUTHENTICATED
from mlxctl.server.middleware.request_id import RequestId
from mlxctl.server.middleware.request_recording import RequestRecording
from mlxctl.server.observe.http_record import HttpRecord

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


def test_request_without_body_whose_client_left_is_no_server_error() -> None:
    records: list[HttpRecord] = []

    class Waiting:
        async def on_get(self, request: Request, response: Response) -> None:
            await asyncio.Event().wait()

    class Anonymous:
        async def process_request(self, request: Request, response: Response) -> None:
            request.context.identity = UNAUTHENTICATED

    recording = RequestRecording([records.append], {}, keeps_content=False)
    app: App[Request, Response] = App(middleware=[RequestId(), Anonymous(), recording])
    app.add_route("/wait", Waiting())
    events = iter([{"type": "http.request", "body": b"", "more_body": False}, {"type": "http.disconnect"}])

    async def receive() -> dict[str, Any]:
        await asyncio.sleep(0.01)
        return next(events)

    async def send(event: dict[str, Any]) -> None:
        raise AssertionError(f"nothing is sent to a client that left: {event}")

    scope = create_scope(path="/wait")
    asyncio.run(DisconnectWatch(app, body_seconds=5)(scope, receive, send))
    assert [(record.status, record.was_disconnected) for record in records] == [(499, True)]
