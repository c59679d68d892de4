"""A server of one model answers to every name."""

import json
from typing import Any

import anthropic
import httpx
import pytest

from .process import ServerProcess

MODEL = "mlxctl-demo"
HELLO = [{"role": "user", "content": "Hello!"}]
CHAT = {"model": "gpt-4o", "messages": HELLO, "max_tokens": 2}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/chat/completions": CHAT,
    "/v1/completions": {"model": "gpt-4o", "prompt": "Hello", "max_tokens": 2},
    "/v1/responses": {"model": "gpt-4o", "input": "Hello", "max_output_tokens": 2, "store": False},
    "/v1/messages": CHAT,
    "/api/chat": {"model": "gpt-4o:latest", "messages": HELLO, "options": {"num_predict": 2}},
    "/api/generate": {"model": "gpt-4o", "prompt": "Hello", "options": {"num_predict": 2}},
    "/api/v1/chat": {"model": "gpt-4o", "input": "Hello", "max_output_tokens": 2, "store": False},
    "/api/chat?load": {"model": "gpt-4o", "messages": []},
    "/completion": {"prompt": "Hello", "n_predict": 2},
}


def models_in(value: Any) -> set[str]:
    """Return the names of models anywhere in a JSON value."""
    if isinstance(value, list):
        return set().union(*map(models_in, value))
    if not isinstance(value, dict):
        return set()
    names = {value[key] for key in ("model", "model_instance_id") if isinstance(value.get(key), str)}
    return names.union(*map(models_in, value.values()))


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize("path", BODIES)
def test_answer_to_any_name_has_the_name_of_the_model(
    demo_server: ServerProcess, path: str, streams: bool
) -> None:
    body = BODIES[path] | {"stream": streams}
    answer = httpx.post(f"{demo_server.url}{path}", json=body, timeout=60).raise_for_status()
    lines = [line.removeprefix("data: ") for line in answer.text.splitlines()]
    assert models_in([json.loads(line) for line in lines if line.startswith("{")]) == {MODEL}


def test_requests_limits_and_metrics_have_the_name_of_the_model(demo_server: ServerProcess) -> None:
    headers = {"x-request-id": "any-name"}
    httpx.post(f"{demo_server.url}/v1/messages", json=CHAT, headers=headers, timeout=60).raise_for_status()
    listed = httpx.get(f"{demo_server.url}/requests").json()["requests"]
    assert [each["model"] for each in listed if each["request_id"] == "any-name"] == [MODEL]
    assert "gpt-4o" not in httpx.get(f"{demo_server.url}/metrics").text


def test_claude_code_counts_tokens_and_asks_under_the_names_of_its_roles(demo_server: ServerProcess) -> None:
    client = anthropic.Anthropic(base_url=demo_server.url, api_key="unused", max_retries=0)
    for name in ("claude-haiku-4-5-20251001", "claude-opus-4-1", MODEL):
        sent: Any = {"model": name, "messages": HELLO}
        assert client.messages.count_tokens(**sent).input_tokens > 0
        assert client.messages.create(**sent, max_tokens=2).model == MODEL


def test_agent_keeps_the_model_that_answers(demo_server: ServerProcess) -> None:
    made = httpx.post(f"{demo_server.url}/v1/agents", json={"model": "gpt-4o", "persist": False})
    assert made.raise_for_status().json()["model"] == MODEL


def test_model_of_another_kind_answers_to_no_other_name(demo_server: ServerProcess) -> None:
    body = {"model": "text-embedding-3-small", "input": "Hello"}
    refused = httpx.post(f"{demo_server.url}/v1/embeddings", json=body)
    assert (refused.status_code, refused.json()["error"]["code"]) == (404, "model_not_found")
    assert httpx.get(f"{demo_server.url}/v1/models/gpt-4o").status_code == 404
    assert httpx.post(f"{demo_server.url}/models/load", json={"model": "gpt-4o"}).status_code == 404


def test_guardrails_of_the_model_apply_to_every_name(demo_server: ServerProcess) -> None:
    rules = f"{demo_server.url}/admin/guardrails"
    assert httpx.put(rules, json={"blocklist": ["forbidden"], "models": [MODEL]}).is_success
    try:
        body = CHAT | {"messages": [{"role": "user", "content": "forbidden"}]}
        refused = httpx.post(f"{demo_server.url}/v1/chat/completions", json=body, timeout=60)
    finally:
        httpx.put(rules, json={})
    assert (refused.status_code, refused.json()["error"]["code"]) == (400, "content_filter")
