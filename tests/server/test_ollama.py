"""Ollama's routes, as its clients call them."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import httpx
import pytest

from .hosted import HostedServer, hosting
from .process import wait_for

MODEL = "mlxctl-demo"
TOOL = {
    "type": "function",
    "function": {
        "name": "get_weather",
        "description": "Get the weather of a city",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
QUESTION = {"role": "user", "content": "What is the weather in Lisbon?"}


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    with hosting(None, "--no-any-model-name") as running, client_of(running) as opened:
        yield opened


def client_of(server: HostedServer) -> httpx.Client:
    return httpx.Client(base_url=server.url, timeout=60)


def lines(client: httpx.Client, path: str, **body: Any) -> list[dict[str, Any]]:
    """Return the lines of a stream.

    A body without `stream` asks for one.
    """
    answer = client.post(path, json={"model": MODEL, **body})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "application/x-ndjson")
    return [json.loads(line) for line in answer.text.splitlines()]


def test_tool_call_is_streamed_whole_and_its_result_is_used(client: httpx.Client) -> None:
    streamed = lines(client, "/api/chat", messages=[QUESTION], tools=[TOOL])
    (call,) = [call for line in streamed for call in line["message"].get("tool_calls", [])]
    assert call["function"] == {"name": "get_weather", "arguments": {"city": "Lisbon"}, "index": 0}
    assert (streamed[-1]["done"], streamed[-1]["done_reason"]) == (True, "stop")
    assert streamed[-1]["eval_count"] > 0
    history = [
        QUESTION,
        {"role": "assistant", "content": "", "tool_calls": [{"function": call["function"]}]},
        {"role": "tool", "tool_name": "get_weather", "content": "21 degrees and sunny"},
    ]
    answer = lines(client, "/api/chat", messages=history, tools=[TOOL])
    assert "21 degrees and sunny" in "".join(line["message"]["content"] for line in answer)


def test_result_whose_call_was_left_out_is_used(client: httpx.Client) -> None:
    history = [
        QUESTION,
        {"role": "assistant", "content": ""},
        {"role": "tool", "content": "21 degrees and sunny"},
    ]
    answer = lines(client, "/api/chat", messages=history, tools=[TOOL])
    assert "21 degrees and sunny" in "".join(line["message"]["content"] for line in answer)


def test_stream_and_whole_answer_are_the_same(client: httpx.Client) -> None:
    body = {"messages": [{"role": "user", "content": "Hello"}], "options": {"temperature": 0}}
    streamed = lines(client, "/api/chat", **body)
    whole = client.post("/api/chat", json={"model": f"{MODEL}:latest", "stream": False, **body}).json()
    for field in ("content", "thinking"):
        assert "".join(line["message"].get(field, "") for line in streamed) == whole["message"][field]
    for end in (whole, streamed[-1]):
        assert 0 < end["prompt_eval_duration"] < end["total_duration"]
        assert 0 < end["load_duration"] < end["total_duration"]
        assert 0 < end["eval_duration"] < end["total_duration"]


def test_thinking_is_turned_off(client: httpx.Client) -> None:
    streamed = lines(client, "/api/generate", prompt="Hello", think=False)
    assert "".join(line["response"] for line in streamed)
    assert not any("thinking" in line for line in streamed)


def test_format_constrains_the_answer(client: httpx.Client) -> None:
    schema = {
        "type": "object",
        "properties": {"a": {"enum": [1, 2]}},
        "required": ["a"],
        "additionalProperties": False,
    }
    streamed = lines(client, "/api/generate", prompt="Hello", format=schema, options={"num_predict": 60})
    assert json.loads("".join(line["response"] for line in streamed))["a"] in (1, 2)


def test_request_without_content_loads_the_model(client: httpx.Client) -> None:
    answer = client.post("/api/generate", json={"model": MODEL}).json()
    assert (answer["done"], answer["done_reason"], answer["response"]) == (True, "load", "")
    assert [model["name"] for model in client.get("/api/ps").json()["models"]] == [MODEL]


def test_model_lists_and_details(client: httpx.Client) -> None:
    (listed,) = client.get("/api/tags").json()["models"]
    shown = client.post("/api/show", json={"model": f"{MODEL}:latest"}).json()
    assert (listed["name"], listed["details"]) == (MODEL, shown["details"])
    assert shown["capabilities"] == ["completion", "tools", "thinking"]
    assert client.get("/api/version").json()["version"]


@pytest.mark.parametrize(
    ("path", "body", "status", "message"),
    [
        ("chat", {"model": "nothing", "messages": [QUESTION]}, 404, "nothing"),
        ("chat", {"model": MODEL, "messages": "Hi"}, 400, "messages"),
        ("chat", {"model": MODEL, "messages": [QUESTION], "think": "hard"}, 400, "think"),
        ("chat", {"model": MODEL, "messages": [QUESTION], "format": "yaml"}, 400, "format"),
        ("generate", {"model": MODEL, "prompt": "Hi", "suffix": "there"}, 400, "suffix"),
        ("generate", {"model": MODEL, "prompt": "Hi", "context": [1, 2]}, 400, "context"),
        ("embed", {"model": MODEL, "input": "Hi"}, 400, "its hidden states make poor vectors"),
        ("show", {}, 400, "model"),
        ("generate", {"model": MODEL, "keep_alive": "soon"}, 400, "keep_alive"),
        ("chat", {"model": MODEL, "keep_alive": []}, 400, "keep_alive"),
    ],
)
def test_errors_have_ollamas_shape(
    client: httpx.Client, path: str, body: dict[str, Any], status: int, message: str
) -> None:
    answer = client.post(f"/api/{path}", json=body)
    assert answer.status_code == status
    assert set(answer.json()) == {"error"}
    assert message in answer.json()["error"]


@pytest.mark.parametrize("path", ["push", "blobs/sha256:0"])
def test_unknown_path_returns_404_in_ollamas_shape(client: httpx.Client, path: str) -> None:
    answer = client.post(f"/api/{path}", json={"model": MODEL})
    assert answer.status_code == 404
    assert isinstance(answer.json()["error"], str)


def test_unknown_lm_studio_path_returns_404_in_openais_shape(client: httpx.Client) -> None:
    answer = client.get("/api/v0/nothing")
    assert answer.status_code == 404
    assert "message" in answer.json()["error"]


def test_keep_alive_decides_how_long_the_model_stays(client: httpx.Client) -> None:
    def expiry() -> list[str]:
        return [model["expires_at"][:4] for model in client.get("/api/ps").json()["models"]]

    client.post("/api/generate", json={"model": MODEL, "keep_alive": "5m"})
    assert expiry() == [str(datetime.now(UTC).year)]
    client.post("/api/generate", json={"model": MODEL, "keep_alive": -1})
    assert expiry() == ["9999"]
    assert lines(client, "/api/chat", messages=[QUESTION], keep_alive=0)[-1]["done"]
    wait_for(lambda: not expiry(), seconds=20)
    client.post("/api/generate", json={"model": MODEL})
    assert expiry() == ["9999"]
    gone = client.post("/api/generate", json={"model": MODEL, "keep_alive": "0s"}).json()
    assert gone["done_reason"] == "unload"
    wait_for(lambda: not expiry(), seconds=20)
    assert lines(client, "/api/chat", messages=[QUESTION])[-1]["done"]


def test_pull_confirms_a_served_model_and_refuses_others(client: httpx.Client) -> None:
    assert lines(client, "/api/pull") == [{"status": "success"}]
    whole = client.post("/api/pull", json={"name": f"{MODEL}:latest", "stream": False})
    assert (whole.headers["content-type"], whole.json()) == ("application/json", {"status": "success"})
    refused = client.post("/api/pull", json={"model": "gemma3"})
    assert (refused.status_code, "'gemma3' is not served here" in refused.json()["error"]) == (404, True)
