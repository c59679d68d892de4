"""Cancelling requests by name; full queues; clients that do not read."""

import asyncio
import json
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import httpx
import httpx2
import openai
import pytest

from mlxctl.inference.remote import RemoteInference
from mlxctl.ir.errors import UnknownResource

from .hosted import HostedServer, hosting
from .process import wait_for

MINE, THEIRS, ADMIN = "key-mine", "key-theirs", "key-admin"
MESSAGES = [{"role": "user", "content": "hi"}]
LONG = {"model": "tiny", "messages": MESSAGES, "max_tokens": 30_000}


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    """One row, one place in the queue, two callers and an operator."""
    environment = {
        "MLXCTL_ENGINE_MAX_ROWS": "1",
        "MLXCTL_ENGINE_MAX_UNREAD_TOKENS": "64",
        "MLXCTL_SERVER_MAX_QUEUE": "0",
    }
    keys = ("--api-key", MINE, "--api-key", THEIRS, "--admin-key", ADMIN)
    with hosting(endless_model, *keys, **environment) as running:
        yield running


def call(server: HostedServer, method: str, path: str, key: str = MINE, **more: Any) -> httpx.Response:
    headers = {"authorization": f"Bearer {key}", **more.pop("headers", {})}
    return httpx.request(method, f"{server.url}{path}", headers=headers, timeout=60, **more)


def open_requests(server: HostedServer) -> list[dict[str, Any]]:
    found = call(server, "GET", "/requests", ADMIN).json()["requests"]
    return [request for request in found if request["state"] in ("waiting", "reading", "answering")]


def start(pool: ThreadPoolExecutor, server: HostedServer, path: str, **body: Any) -> "Future[httpx.Response]":
    """Start a long answer and wait until its row decodes."""
    answer = pool.submit(
        call, server, "POST", path, json=LONG | body, headers={"x-request-id": "long-answer"}
    )
    wait_for(lambda: any(row["state"] == "answering" for row in open_requests(server)), seconds=20)
    return answer


@pytest.mark.parametrize(
    ("path", "stream", "status", "expected_message"),
    [
        ("/v1/chat/completions", False, 499, '"code":"request_cancelled"'),
        ("/v1/chat/completions", True, 200, '"code":"request_cancelled"'),
        ("/v1/messages", False, 499, '"type":"api_error"'),
        ("/v1/messages", True, 200, "event: error"),
    ],
)
def test_cancelled_request_ends_with_error_and_frees_its_row(
    server: HostedServer, path: str, stream: bool, status: int, expected_message: str
) -> None:
    with ThreadPoolExecutor() as pool:
        answer = start(pool, server, path, stream=stream)
        (number,) = [request["number"] for request in open_requests(server)]

        cancelled = call(server, "DELETE", "/requests/long-answer")

        assert cancelled.json() == {"id": "long-answer", "cancelled": [number]}
        assert answer.result().status_code == status
        assert expected_message in answer.result().text
    assert "was cancelled" in answer.result().text
    following = call(server, "POST", "/v1/chat/completions", json=LONG | {"max_tokens": 1})
    assert following.status_code == 200


async def cancel_remotely(server: HostedServer, request_id: str) -> list[int]:
    """Cancel as `mlxctl top` does, with the operator's key."""
    remote = RemoteInference(server.url, api_key=ADMIN)
    try:
        return await remote.cancel(request_id)
    finally:
        await remote.close()


def test_only_owner_and_admin_may_cancel(server: HostedServer) -> None:
    with ThreadPoolExecutor() as pool:
        answer = start(pool, server, "/v1/chat/completions")
        (number,) = [request["number"] for request in open_requests(server)]

        refused = call(server, "DELETE", f"/requests/{number}", THEIRS)
        cancelled = asyncio.run(cancel_remotely(server, str(number)))

        assert refused.status_code == 403
        assert "another caller's" in refused.json()["error"]["message"]
        assert cancelled == [number]
        assert answer.result().status_code == 499
    with pytest.raises(UnknownResource, match="there is no open request"):
        asyncio.run(cancel_remotely(server, str(number)))
    assert call(server, "DELETE", "/requests/never", ADMIN).status_code == 404


def test_waiting_request_can_be_cancelled(server: HostedServer) -> None:
    with ThreadPoolExecutor() as pool:
        running = start(pool, server, "/v1/chat/completions")
        waiting = pool.submit(
            call, server, "POST", "/v1/chat/completions", json=LONG, headers={"x-request-id": "waiting"}
        )
        wait_for(lambda: len(open_requests(server)) == 2, seconds=20)

        call(server, "DELETE", "/requests/waiting")

        assert waiting.result().status_code == 499
        assert [request["state"] for request in open_requests(server)] == ["answering"]
        call(server, "DELETE", "/requests/long-answer")
        assert running.result().status_code == 499


def ask_openai(server: HostedServer, note: Callable[[Any], None]) -> str | None:
    with (
        httpx.Client(event_hooks={"response": [note]}) as http,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key=MINE, max_retries=2, http_client=http) as client,
    ):
        answer = client.chat.completions.create(
            model="tiny", messages=[{"role": "user", "content": "hi"}], max_tokens=1
        )
        return answer.choices[0].finish_reason


def ask_anthropic(server: HostedServer, note: Callable[[Any], None]) -> str | None:
    with (
        httpx2.Client(event_hooks={"response": [note]}) as http,
        anthropic.Anthropic(base_url=server.url, api_key=MINE, max_retries=2, http_client=http) as client,
    ):
        answer = client.messages.create(
            model="tiny", messages=[{"role": "user", "content": "hi"}], max_tokens=1
        )
        return answer.stop_reason


@pytest.mark.parametrize(("ask", "reason"), [(ask_openai, "length"), (ask_anthropic, "max_tokens")])
def test_sdk_repeats_a_request_after_a_full_queue(
    server: HostedServer, ask: Callable[[HostedServer, Callable[[Any], None]], str | None], reason: str
) -> None:
    answers: list[Any] = []

    def note(response: Any) -> None:
        answers.append(response)
        if response.status_code == 429:
            for request in open_requests(server):
                call(server, "DELETE", f"/requests/{request['number']}", ADMIN)

    with ThreadPoolExecutor() as pool:
        start(pool, server, "/v1/chat/completions")
        pool.submit(call, server, "POST", "/v1/chat/completions", json=LONG)
        wait_for(lambda: len(open_requests(server)) == 2, seconds=20)

        assert ask(server, note) == reason

    assert [answer.status_code for answer in answers] == [429, 200]
    assert 1 <= int(answers[0].headers["retry-after"]) <= 60


def test_more_answers_than_places_are_refused_for_good(server: HostedServer) -> None:
    refused = call(server, "POST", "/v1/chat/completions", json=LONG | {"n": 4})

    assert refused.status_code == 400
    assert refused.json()["error"]["param"] == "n"


def test_client_that_does_not_read_gives_its_row_to_others(server: HostedServer) -> None:
    # A stream of responses begins with two events of this size, more than the buffers of both ends take.
    body = {"model": "tiny", "input": "hi", "max_output_tokens": 600, "stream": True, "user": "u" * 300_000}
    payload = json.dumps(body).encode()
    head = f"host: localhost\r\nauthorization: Bearer {MINE}\r\ncontent-length: {len(payload)}\r\n\r\n"
    address = urlsplit(server.url)
    with socket.create_connection((address.hostname, address.port), timeout=60) as connection:
        connection.sendall(b"POST /v1/responses HTTP/1.1\r\n" + head.encode() + payload)
        wait_for(lambda: call(server, "GET", "/stats", ADMIN).json()["num_paused"] == 1, seconds=60)

        other = call(server, "POST", "/v1/chat/completions", json=LONG | {"max_tokens": 5})
        received = bytearray()
        while not received.endswith(b"\r\n0\r\n\r\n"):
            received += connection.recv(1 << 20)

    assert other.status_code == 200
    assert b'"output_tokens":600' in received
    stats = call(server, "GET", "/stats", ADMIN).json()
    assert stats["num_paused"] == stats["num_decoding"] == 0
    assert stats["num_resumes"] >= stats["num_pauses"] >= 1
