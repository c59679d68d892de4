"""Queue, timeout and ping limits."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from .process import ServerProcess, serving, wait_for
from .test_access_log import LoggedServer, logged

LIMIT_SECONDS = 2.0


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[ServerProcess]:
    """A server with one batch slot, a queue of one, short timeouts."""
    limits = {
        "MLXCTL_ENGINE_MAX_ROWS": "1",
        "MLXCTL_SERVER_MAX_QUEUE": "0",
        "MLXCTL_SERVER_REQUEST_TIMEOUT_SECONDS": "60",
        "MLXCTL_SERVER_TIMEOUTS": f"chat={LIMIT_SECONDS},messages={LIMIT_SECONDS},completions=20",
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


def test_openapi_document_has_the_timeout_of_each_endpoint(server: ServerProcess) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    named = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
    assert [paths[path]["post"]["x-timeout-seconds"] for path in named] == [LIMIT_SECONDS, 20, 60]


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


@pytest.fixture(scope="module")
def small_server(endless_model: Path) -> Iterator[LoggedServer]:
    """A server whose memory holds about 7,000 tokens.

    For requests that do not wait for it.
    """
    limits = {
        "MLXCTL_ENGINE_MEMORY_LIMIT_BYTES": "8MB",
        "MLXCTL_ENGINE_MEMORY_WAIT_SECONDS": "0",
        "MLXCTL_ENGINE_ADMISSION": "strict",
    }
    with logged("--model", str(endless_model), "--name", "tiny", **limits) as running:
        yield running


TEXT = "a" * 10_000


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": TEXT}]}),
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "max_tokens": 20_000}),
        ("/v1/completions", {"prompt": [30] * 10_000, "max_tokens": 1}),
        ("/v1/responses", {"input": TEXT}),
        ("/v1/messages", {"messages": [{"role": "user", "content": TEXT}], "max_tokens": 1}),
    ],
)
def test_prompt_that_never_fits_is_refused_before_any_byte(
    small_server: ServerProcess, path: str, fields: dict[str, Any], stream: bool
) -> None:
    refused = httpx.post(f"{small_server.url}{path}", json={"model": "tiny", "stream": stream, **fields})

    assert refused.status_code == 400
    error = refused.json()["error"]
    if path == "/v1/messages":
        assert error["type"] == "invalid_request_error"
    else:
        assert (error["type"], error["code"]) == ("memory_admission", "context_over_budget")
    assert "of the memory limit of 8.00 MB" in error["message"]


def test_memory_shortage_is_503_or_529_and_names_the_request(small_server: LoggedServer) -> None:
    prompt = {"model": "tiny", "prompt": [30] * 3600, "max_tokens": 2500, "stream": True}
    url = f"{small_server.url}/v1/completions"
    with httpx.stream("POST", url, json=prompt, timeout=30) as holder:
        lines = holder.iter_lines()
        assert any('"text"' in line for line in lines)
        short = httpx.post(
            url,
            json={"model": "tiny", "prompt": [40] * 3600, "max_tokens": 1},
            headers={"x-request-id": "mine-7"},
            timeout=30,
        )
        content = [{"role": "user", "content": "b" * 3600}]
        overloaded = ask(small_server, "/v1/messages", messages=content, max_tokens=1)
    assert (short.status_code, short.json()["error"]["code"]) == (503, "memory_exhausted")
    assert short.json()["error"]["message"].endswith("(request mine-7)")
    assert (overloaded.status_code, overloaded.json()["error"]["type"]) == (529, "overloaded_error")
    assert "retry-after" in short.headers
    assert small_server.line("engine: request mine-7: the request needs ")
