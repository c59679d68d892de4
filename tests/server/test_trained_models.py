"""Models trained to call tools in their family's format, over both protocols."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import openai
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting

PARAMETERS = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "Name of the city"}},
    "required": ["city"],
}
NAME, DESCRIPTION = "sky_report", "Get the weather of a city"
OPENAI_TOOLS: Any = [
    {"type": "function", "function": {"name": NAME, "description": DESCRIPTION, "parameters": PARAMETERS}}
]
ANTHROPIC_TOOLS: Any = [{"name": NAME, "description": DESCRIPTION, "input_schema": PARAMETERS}]
QUESTION: Any = [{"role": "user", "content": "What is the weather in Lisbon?"}]
OPENAI_CHOICES: Any = ["auto", "required", {"type": "function", "function": {"name": NAME}}]
ANTHROPIC_CHOICES: Any = [{"type": "auto"}, {"type": "any"}, {"type": "tool", "name": NAME}]
# A model that thinks does so unless it is told not to.
CALM: Any = {"chat_template_kwargs": {"enable_thinking": False}}


NAMES = [name for name in tiny_models.TRAINED_NAMES if name not in ("llama_coder_tools", "llama_false_tools")]


@pytest.fixture(scope="module")
def served() -> Iterator[HostedServer]:
    """One server for all models, called like their directories."""
    models = [argument for name in NAMES for argument in ("--model", str(tiny_models.trained(name)))]
    with hosting(None, *models) as running:
        yield running


@pytest.fixture(scope="module", params=NAMES)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def chat(served: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def messages(served: HostedServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key="unused", max_retries=0) as client:
        yield client


def chat_options(model: str, **more: Any) -> dict[str, Any]:
    return {
        "model": model,
        "messages": QUESTION,
        "temperature": 0,
        "max_tokens": 60,
        "extra_body": CALM,
        **more,
    }


def message_options(model: str, **more: Any) -> dict[str, Any]:
    return {"model": model, "messages": QUESTION, "extra_body": {"temperature": 0}, "max_tokens": 60, **more}


@pytest.mark.parametrize("choice", OPENAI_CHOICES, ids=["auto", "required", "named"])
def test_openai_gets_a_call_and_no_text(chat: openai.OpenAI, model: str, choice: Any) -> None:
    answer = chat.chat.completions.create(
        **chat_options(model, tools=OPENAI_TOOLS, tool_choice=choice)
    ).choices[0]
    calls = [
        (call.function.name, json.loads(call.function.arguments)) for call in answer.message.tool_calls or []
    ]
    assert calls == [(NAME, {"city": "Lisbon"})]
    assert (answer.message.content or "", answer.finish_reason) == ("", "tool_calls")


@pytest.mark.parametrize("choice", OPENAI_CHOICES, ids=["auto", "required", "named"])
def test_openai_streams_the_same_call(chat: openai.OpenAI, model: str, choice: Any) -> None:
    chunks = chat.chat.completions.create(
        **chat_options(model, tools=OPENAI_TOOLS, tool_choice=choice, stream=True)
    )
    deltas = [chunk.choices[0].delta for chunk in chunks if chunk.choices]
    parts = [call.function for delta in deltas for call in delta.tool_calls or []]
    assert "".join(part.name or "" for part in parts) == NAME
    assert json.loads("".join(part.arguments or "" for part in parts)) == {"city": "Lisbon"}
    assert "".join(delta.content or "" for delta in deltas) == ""


@pytest.mark.parametrize("choice", ANTHROPIC_CHOICES, ids=["auto", "any", "tool"])
def test_anthropic_gets_a_call_and_no_text(messages: anthropic.Anthropic, model: str, choice: Any) -> None:
    answer = messages.messages.create(**message_options(model, tools=ANTHROPIC_TOOLS, tool_choice=choice))
    assert [(block.name, block.input) for block in answer.content if block.type == "tool_use"] == [
        (NAME, {"city": "Lisbon"})
    ]
    assert ([block for block in answer.content if block.type == "text"], answer.stop_reason) == (
        [],
        "tool_use",
    )


@pytest.mark.parametrize("choice", ANTHROPIC_CHOICES, ids=["auto", "any", "tool"])
def test_anthropic_streams_the_same_call(messages: anthropic.Anthropic, model: str, choice: Any) -> None:
    with messages.messages.stream(
        **message_options(model, tools=ANTHROPIC_TOOLS, tool_choice=choice)
    ) as stream:
        answer = stream.get_final_message()
    assert [(block.name, block.input) for block in answer.content if block.type == "tool_use"] == [
        (NAME, {"city": "Lisbon"})
    ]


def test_tool_result_becomes_the_answer(chat: openai.OpenAI, model: str) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": NAME, "arguments": '{"city": "Lisbon"}'}}
    body: Any = [
        *QUESTION,
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "call_1", "content": "sunny"},
    ]
    answer = chat.chat.completions.create(**chat_options(model, messages=body, tools=OPENAI_TOOLS)).choices[0]
    assert (answer.message.content, answer.message.tool_calls, answer.finish_reason) == (
        "The answer is: sunny",
        None,
        "stop",
    )


def test_no_call_without_tools(chat: openai.OpenAI, model: str) -> None:
    answer = chat.chat.completions.create(**chat_options(model)).choices[0]
    assert (answer.message.content, answer.message.tool_calls) == ("I cannot look up the weather.", None)
