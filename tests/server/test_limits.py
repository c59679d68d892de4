"""Queue, timeout and ping limits."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from mlxctl.server.http.deadline import timeout_seconds
from mlxctl.state.settings import Endpoint, ServerSettings

from .hosted import HostedServer, hosting
from .test_access_log import LoggedServer, logged

CHAT_SECONDS, MESSAGES_SECONDS, COMPLETIONS_SECONDS = 2, 4, 20


@pytest.fixture(scope="module")
def server(endless_model: Path) -> Iterator[HostedServer]:
    """A server with one batch slot, a queue of one, short timeouts."""
    limits = {
        "MLXCTL_ENGINE_MAX_ROWS": "1",
        "MLXCTL_SERVER_MAX_QUEUE": "0",
        "MLXCTL_SERVER_REQUEST_TIMEOUT_SECONDS": "60",
        "MLXCTL_SERVER_TIMEOUTS": (
            f"chat={CHAT_SECONDS},messages={MESSAGES_SECONDS},completions={COMPLETIONS_SECONDS}"
        ),
        "MLXCTL_SERVER_PING_INTERVAL_SECONDS": "0.2",
    }
    with hosting(endless_model, **limits) as running:
        yield running


def body(**more: Any) -> dict[str, Any]:
    return {"model": "tiny", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 30_000, **more}


def ask(server: HostedServer, path: str, **more: Any) -> httpx.Response:
    return httpx.post(f"{server.url}{path}", json=body(**more))


@contextmanager
def decoding(server: HostedServer) -> Iterator[httpx.Response]:
    """Hold the only batch slot until the response is closed."""
    asked = {"model": "tiny", "prompt": "hi", "max_tokens": 30_000, "stream": True}
    with httpx.stream("POST", f"{server.url}/v1/completions", json=asked) as response:
        lines = response.iter_lines()
        assert any('"text"' in line for line in lines)
        yield response


@pytest.mark.parametrize(
    ("endpoint", "paths"),
    [
        ("chat", ["/v1/chat/completions", "/api/v0/chat/completions", "/api/v1/chat"]),
        ("completions", ["/v1/completions", "/api/v0/completions", "/completion", "/infill"]),
        ("messages", ["/v1/messages", "/v1/messages/count_tokens"]),
        ("embeddings", ["/v1/embeddings", "/api/v0/embeddings", "/embedding", "/v2/rerank"]),
        ("ollama", ["/api/chat", "/api/generate", "/api/embed"]),
        ("admin", ["/models/load"]),
    ],
)
def test_timeout_of_an_endpoint_covers_the_routes_of_all_dialects(
    endpoint: Endpoint, paths: list[str]
) -> None:
    settings = ServerSettings(timeouts={endpoint: 7.0})
    assert [timeout_seconds(path, settings) for path in paths] == [7.0] * len(paths)


def test_request_timeout_returns_504(server: HostedServer) -> None:
    whole = ask(server, "/v1/chat/completions")
    streamed = ask(server, "/v1/messages", stream=True)
    assert (whole.status_code, whole.json()["error"]["code"]) == (504, "deadline_exceeded")
    assert whole.elapsed.total_seconds() > 0.9 * CHAT_SECONDS
    assert streamed.status_code == 200
    assert "event: error" in streamed.text
    assert "timeout_error" in streamed.text


def test_openapi_document_has_the_timeout_of_each_endpoint(server: HostedServer) -> None:
    paths = httpx.get(f"{server.url}/openapi.json").json()["paths"]
    named = ("/v1/chat/completions", "/v1/completions", "/v1/responses")
    seconds = [paths[path]["post"]["x-timeout-seconds"] for path in named]
    assert seconds == [CHAT_SECONDS, COMPLETIONS_SECONDS, 60]


def test_disconnect_frees_the_batch_slot(server: HostedServer) -> None:
    with decoding(server):
        pass
    next_one = ask(server, "/v1/chat/completions", max_tokens=1)
    # In a slot that stays in use it would reach its own time limit first.
    assert next_one.status_code == 200


def test_full_queue_returns_429_and_queued_stream_gets_pings(server: HostedServer) -> None:
    asked = body(stream=True, max_tokens=2)
    with (
        decoding(server) as running,
        httpx.stream("POST", f"{server.url}/v1/messages", json=asked) as waiting,
    ):
        chat, messages = ask(server, "/v1/chat/completions", stream=True), ask(server, "/v1/messages")
        lines = waiting.iter_lines()
        kept_alive = "".join(next(lines) for _ in range(8))
        running.close()
        answer = "".join(lines)
    assert (chat.status_code, chat.json()["error"]["code"]) == (429, "rate_limit_exceeded")
    assert (messages.status_code, messages.json()["error"]["type"]) == (429, "rate_limit_error")
    assert "retry-after" in chat.headers
    assert "retry-after" in messages.headers
    # The first event counts what was cached, which is known when the request has its place; clients take no
    # event before it.
    assert kept_alive == ": ping" * 4
    assert answer.index("event: message_start") < answer.index("content_block_delta")


def test_choices_beyond_all_places_are_refused_together(
    server: HostedServer,
) -> None:
    asked = {"model": "tiny", "prompt": "hi", "max_tokens": 30_000, "n": 4}
    refused = httpx.post(f"{server.url}/v1/completions", json=asked)
    # An answer that had begun would hold the slot beyond the time limit of this one.
    alone = ask(server, "/v1/chat/completions", max_tokens=1)
    assert (refused.status_code, refused.json()["error"]["param"]) == (400, "n")
    assert alone.status_code == 200


@pytest.fixture(scope="module")
def small_server(endless_model: Path) -> Iterator[LoggedServer]:
    """A server whose memory holds a conversation of about 4,500 tokens.

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
    small_server: HostedServer, path: str, fields: dict[str, Any], stream: bool
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
    prompt = {"model": "tiny", "prompt": [30] * 2400, "max_tokens": 2000, "stream": True}
    url = f"{small_server.url}/v1/completions"
    with httpx.stream("POST", url, json=prompt, timeout=30) as holder:
        lines = holder.iter_lines()
        assert any('"text"' in line for line in lines)
        short = httpx.post(
            url,
            json={"model": "tiny", "prompt": [40] * 4000, "max_tokens": 1},
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
