"""The demo model through the vendors' SDKs: text and tool calls."""

import json
from typing import Any

import anthropic
import httpx
import openai
import pytest

from .process import ServerProcess

SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER = {"name": "get_weather", "description": "Get the weather of a city"}
QUESTION: dict[str, Any] = {"role": "user", "content": "What is the weather in Lisbon?"}
RESULT = "21 degrees and sunny"


@pytest.fixture(scope="module")
def server(demo_server: ServerProcess) -> ServerProcess:
    return demo_server


def test_openai_round_trip(openai_client: openai.OpenAI) -> None:
    body: dict[str, Any] = {
        "model": openai_client.models.list().data[0].id,
        "temperature": 0,
        "max_tokens": 200,
    }
    tools = [{"type": "function", "function": {**WEATHER, "parameters": SCHEMA}}]
    first = openai_client.chat.completions.create(messages=[QUESTION], tools=tools, **body).choices[0]
    assert first.finish_reason == "tool_calls"
    assert first.message.tool_calls is not None
    call = first.message.tool_calls[0]
    assert (call.function.name, json.loads(call.function.arguments)) == ("get_weather", {"city": "Lisbon"})

    results = [
        {"role": "tool", "tool_call_id": one.id, "content": RESULT} for one in first.message.tool_calls
    ]
    history = [QUESTION, first.message.model_dump(exclude_none=True), *results]
    second = openai_client.chat.completions.create(messages=history, tools=tools, **body).choices[0]
    assert "21" in (second.message.content or "")


def test_the_short_name_names_the_demo_model(server: ServerProcess) -> None:
    body = {"model": "demo", "messages": [{"role": "user", "content": "Hello!"}], "max_tokens": 2}
    answer = httpx.post(f"{server.url}/v1/chat/completions", json=body, timeout=60)
    assert (answer.status_code, answer.json()["model"]) == (200, "demo")
    assert httpx.get(f"{server.url}/v1/models/demo").json()["id"] == "mlxctl-demo"


def test_anthropic_streamed_round_trip(anthropic_client: anthropic.Anthropic) -> None:
    body: dict[str, Any] = {
        "model": anthropic_client.models.list().data[0].id,
        "max_tokens": 200,
        "tools": [{**WEATHER, "input_schema": SCHEMA}],
        "extra_body": {"temperature": 0},
    }
    with anthropic_client.messages.stream(messages=[QUESTION], **body) as stream:
        first = stream.get_final_message()
    calls = [block for block in first.content if block.type == "tool_use"]
    assert first.stop_reason == "tool_use"
    assert (calls[0].name, calls[0].input) == ("get_weather", {"city": "Lisbon"})

    results = [{"type": "tool_result", "tool_use_id": call.id, "content": RESULT} for call in calls]
    history: list[Any] = [
        QUESTION,
        {"role": "assistant", "content": first.content},
        {"role": "user", "content": results},
    ]
    with anthropic_client.messages.stream(messages=history, **body) as stream:
        assert "21" in "".join(stream.text_stream)


def test_thinking_is_returned_and_can_be_disabled(
    openai_client: openai.OpenAI,
) -> None:
    body: dict[str, Any] = {
        "model": openai_client.models.list().data[0].id,
        "temperature": 0,
        "max_tokens": 100,
    }
    greeting: list[Any] = [{"role": "user", "content": "Hello!"}]

    def thoughts(effort: Any) -> str | None:
        answer = (
            openai_client.chat.completions.create(messages=greeting, reasoning_effort=effort, **body)
            .choices[0]
            .message
        )
        assert answer.content
        assert "<think>" not in answer.content
        return getattr(answer, "reasoning_content", None)

    assert thoughts("high")
    assert not thoughts("none")


@pytest.mark.parametrize("hidden", [{"include_reasoning": False}, {"reasoning": {"exclude": True}}])
def test_thinking_can_be_hidden(openai_client: openai.OpenAI, hidden: dict[str, Any]) -> None:
    body: dict[str, Any] = {
        "model": openai_client.models.list().data[0].id,
        "messages": [{"role": "user", "content": "Hello!"}],
        "temperature": 0,
        "extra_body": {"enable_thinking": True, **hidden},
    }
    whole = openai_client.chat.completions.create(**body)
    chunks = list(openai_client.chat.completions.create(**body, stream=True))
    deltas = [choice.delta for chunk in chunks for choice in chunk.choices]
    assert whole.usage is not None
    assert whole.usage.completion_tokens_details is not None
    assert (whole.usage.completion_tokens_details.reasoning_tokens or 0) > 0
    assert not any(hasattr(part, "reasoning_content") for part in (whole.choices[0].message, *deltas))
    assert "".join(delta.content or "" for delta in deltas) == whole.choices[0].message.content


def test_banner_names_the_demo_and_an_example_request() -> None:
    server = ServerProcess()
    try:
        server.wait_ready()
        server.stop()
        assert server.process.stdout is not None
        banner = server.process.stdout.read()
    finally:
        server.kill()
    assert "tiny demo" in banner
    assert "mlxctl-demo, context" in banner
    assert f"curl {server.url}/v1/chat/completions" in banner
