"""Queue, timeout and ping limits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from .process import ServerProcess, serving, wait_for

LIMIT_SECONDS = 2.0


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    """A server with one batch slot, a queue of one, and short timeouts."""
    limits = {
        "MLXCTL_ENGINE_MAX_ROWS": "1",
        "MLXCTL_SERVER_MAX_QUEUE": "0",
        "MLXCTL_SERVER_REQUEST_TIMEOUT_SECONDS": str(LIMIT_SECONDS),
        "MLXCTL_SERVER_PING_INTERVAL_SECONDS": "0.2",
    }
    with serving(endless_model, **limits) as running:
        yield running


def body(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 30_000, **more}


def ask(server: ServerProcess, path: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body(**more), timeout=30)


def test_request_timeout_returns_504(server: ServerProcess) -> None:
    whole = ask(server, "/v1/chat/completions")
    streamed = ask(server, "/v1/messages", stream=True)
    assert (whole.status_code, whole.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert whole.elapsed.total_seconds() == pytest.approx(LIMIT_SECONDS, abs=0.5)
    assert streamed.status_code == 200
    assert "event: error" in streamed.text
    assert "timeout_error" in streamed.text


def test_disconnect_frees_the_batch_slot(server: ServerProcess) -> None:
    with httpx.stream("POST", f"{server.url}/v1/messages", json=body(stream=True), timeout=30) as response:
        lines = response.iter_lines()
        assert any("text_delta" in line for line in lines)
    next_one = ask(server, "/v1/chat/completions", max_tokens=1)
    assert next_one.status_code == 200
    assert next_one.elapsed.total_seconds() < LIMIT_SECONDS / 2


def test_full_queue_returns_429_and_queued_stream_gets_pings(server: ServerProcess) -> None:
    with ThreadPoolExecutor() as pool:
        running = pool.submit(ask, server, "/v1/messages", stream=True)
        wait_for(lambda: server.health()["open_requests"] == 1, seconds=2)
        waiting = pool.submit(ask, server, "/v1/messages", stream=True)
        wait_for(lambda: server.health()["open_requests"] == 2, seconds=2)
        chat, messages = ask(server, "/v1/chat/completions", stream=True), ask(server, "/v1/messages")
        kept_alive = waiting.result().text
        assert "content_block_delta" in running.result().text
    assert (chat.status_code, chat.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert (messages.status_code, messages.json()["error"]["type"]) == (429, "rate_limit_error")
    assert "retry-after" in chat.headers
    assert "retry-after" in messages.headers
    # The first event counts what was cached, which is known when the request has its place; clients take no
    # event before it.
    assert kept_alive.count(": ping") >= 3
    assert kept_alive.index(": ping") < kept_alive.index("event: message_start")


def test_choices_beyond_all_places_are_refused_together(
    server: ServerProcess,
) -> None:
    refused = ask(server, "/v1/chat/completions", n=4)
    alone = ask(server, "/v1/chat/completions", max_tokens=1)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "n")
    assert alone.status_code == 200
    assert alone.elapsed.total_seconds() < LIMIT_SECONDS / 2


def test_engine_failure_names_the_request_id_of_its_header(endless_model: Path) -> None:
    with serving(endless_model, MLXCTL_ENGINE_MEMORY_LIMIT_BYTES="16MB") as server:
        response = httpx.post(
            f"{server.url}/v1/completions",
            json={"model": "tiny", "prompt": [30] * 20_000, "max_tokens": 1},
            headers={"x-request-id": "mine-7"},
            timeout=30,
        )
        assert response.headers["x-request-id"] == "mine-7"
        message = response.json()["error"]["message"]
        assert message.startswith("the prompt's cache needs ")
        assert message.endswith("(request mine-7)")
        server.stop()
        log = server.process.stderr.read() if server.process.stderr else ""
    assert "engine: request mine-7: the prompt's cache needs " in log
