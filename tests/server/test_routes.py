"""Routes and their error shapes, without generation."""

import codecs
import json
from pathlib import Path
from typing import Any

import pytest
from falcon import testing

from mlxctl.state.settings import ServerSettings

from .conftest import unstarted_app

CHAT, MESSAGES, COUNT = "/v1/chat/completions", "/v1/messages", "/v1/messages/count_tokens"


@pytest.fixture(scope="module")
def client(endless_model: Path) -> testing.TestClient:
    return unstarted_app(endless_model, ServerSettings(max_body_bytes=2048))


def openai_code(result: testing.Result) -> Any:
    return result.json["error"]["code"]


def anthropic_type(result: testing.Result) -> Any:
    assert result.json["type"] == "error"
    return result.json["error"]["type"]


@pytest.mark.parametrize("path", ["/", "/api/hello", "/livez", "/health"])
@pytest.mark.parametrize("method", ["GET", "HEAD"])
def test_liveness_routes_answer_before_the_engine_runs(
    client: testing.TestClient, method: str, path: str
) -> None:
    result = client.simulate_request(method, path)
    assert result.status_code == 200
    assert bool(result.content) == (method == "GET")


def test_readyz_returns_503_with_retry_after(client: testing.TestClient) -> None:
    result = client.simulate_get("/readyz")
    assert result.status_code == 503
    assert int(result.headers["retry-after"]) >= 1
    assert (result.json["status"], result.json["reason"]) == ("not_ready", "model_loading")
    assert client.simulate_get("/livez").json["status"] == "alive"


@pytest.mark.parametrize("path", ["/nowhere", "/v1/", "/v1/chat", "/v1/messages/batches"])
def test_unknown_route_returns_404_in_the_clients_shape(client: testing.TestClient, path: str) -> None:
    result = client.simulate_get(path)
    anthropic_error = client.simulate_get(path, headers={"anthropic-version": "2023-06-01"})
    assert (result.status_code, openai_code(result)) == (404, "not_found")
    assert (anthropic_error.status_code, anthropic_type(anthropic_error)) == (404, "not_found_error")


@pytest.mark.parametrize(
    ("path", "hint"),
    [
        ("/v1/v1/chat/completions", "did you mean '/v1/chat/completions'?"),
        ("/v1/chat/completion", "did you mean '/v1/chat/completions'?"),
        ("/openai/v1/models", "did you mean '/v1/models'?"),
        ("/classify", "POST /v1/rerank takes cross-encoders"),
        ("/api/delete", "use `mlxctl models rm`"),
        ("/nothing/like/it", "GET /openapi.json lists the routes"),
    ],
)
def test_unknown_route_names_what_there_is(client: testing.TestClient, path: str, hint: str) -> None:
    error = client.simulate_post(path).json["error"]
    assert hint in (error if isinstance(error, str) else error["message"])


def test_load_counts_open_requests(client: testing.TestClient) -> None:
    assert client.simulate_get("/load").json == {"server_load": 0}


def test_wrong_method_returns_405_with_allow(client: testing.TestClient) -> None:
    for path in (CHAT, MESSAGES, COUNT):
        result = client.simulate_get(path)
        assert result.status_code == 405
        assert "POST" in result.headers["allow"]
        assert "error" in result.json


@pytest.mark.parametrize(
    "body", [b"", b"{", b"[]", b'"hi"', b"\xff\xfe", b'{"model": "tiny"}', b'{"model": 3, "messages": []}']
)
def test_malformed_body_returns_400_in_the_routes_shape(client: testing.TestClient, body: bytes) -> None:
    chat, messages = (
        client.simulate_post(CHAT, body=body),
        client.simulate_post(f"{MESSAGES}?beta=true", body=body),
    )
    assert (chat.status_code, chat.json["error"]["type"]) == (400, "invalid_request_error")
    count = client.simulate_post(f"{COUNT}?beta=true", body=body)
    assert (messages.status_code, anthropic_type(messages)) == (400, "invalid_request_error")
    assert (count.status_code, anthropic_type(count)) == (400, "invalid_request_error")


def test_oversized_body_returns_413(client: testing.TestClient) -> None:
    chat, messages = (client.simulate_post(path, body=b" " * 2049) for path in (CHAT, MESSAGES))
    assert (chat.status_code, openai_code(chat)) == (413, "request_too_large")
    assert (messages.status_code, anthropic_type(messages)) == (413, "request_too_large")
    assert client.simulate_post(CHAT, body=b" " * 2048).status_code == 400


def test_compressed_body_returns_415_in_the_routes_shape(client: testing.TestClient) -> None:
    chat, messages, ollama = (
        client.simulate_post(path, body=b"\x1f\x8b", headers={"content-encoding": "gzip"})
        for path in (CHAT, MESSAGES, "/api/chat")
    )
    assert (chat.status_code, openai_code(chat)) == (415, "unsupported_content_encoding")
    assert (messages.status_code, anthropic_type(messages)) == (415, "invalid_request_error")
    assert (ollama.status_code, ollama.headers["accept-encoding"]) == (415, "identity")
    assert "gzip" in ollama.json["error"]


def test_unsupported_transfer_encoding_is_refused(client: testing.TestClient) -> None:
    result = client.simulate_post(CHAT, body=b"\x1f\x8b", headers={"transfer-encoding": "gzip, chunked"})
    assert result.status_code == 400
    assert "gzip" in result.json["error"]["message"]


def test_byte_order_mark_before_json_is_skipped(client: testing.TestClient) -> None:
    body = {"model": "huge", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    marked = codecs.BOM_UTF8 + json.dumps(body).encode()
    answers = [client.simulate_post(path, body=marked) for path in (CHAT, MESSAGES, "/api/chat")]
    assert [answer.status_code for answer in answers] == [404, 404, 404]


def test_unknown_model_returns_404_before_the_engine_runs(client: testing.TestClient) -> None:
    body = {"model": "huge", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 1}
    chat, messages = (client.simulate_post(path, json=body) for path in (CHAT, MESSAGES))
    assert (chat.status_code, openai_code(chat)) == (404, "model_not_found")
    assert (messages.status_code, anthropic_type(messages)) == (404, "not_found_error")


@pytest.mark.parametrize("stream", [True, False])
def test_generation_returns_503_before_the_engine_runs(client: testing.TestClient, stream: bool) -> None:
    body = {
        "model": "tiny",
        "messages": [{"role": "user", "content": "hi"}],
        "max_tokens": 1,
        "stream": stream,
    }
    for path in (CHAT, MESSAGES):
        result = client.simulate_post(path, json=body)
        assert result.status_code == 503
        assert int(result.headers["retry-after"]) >= 1
        assert result.headers["content-type"] == "application/json"


def test_every_response_has_a_request_id(client: testing.TestClient) -> None:
    first, second = client.simulate_get("/livez"), client.simulate_get("/nowhere")
    chosen = client.simulate_get("/livez", headers={"x-request-id": "mine-1"})
    hostile = client.simulate_get("/livez", headers={"x-request-id": "a b;c"})
    assert first.headers["x-request-id"] == first.headers["request-id"] != second.headers["request-id"]
    assert chosen.headers["x-request-id"] == "mine-1"
    assert hostile.headers["x-request-id"].startswith("req_")
