"""Forced and strict calls fit their schemas in non-JSON call formats."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

from tests import tiny_models

from .hosted import HostedServer, hosting

PLAN = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 12},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
        "unit": {"enum": ["metric", "imperial"]},
        "note": {"type": ["string", "null"], "maxLength": 8},
        "stops": {"type": "array", "items": {"$ref": "#/$defs/stop"}, "minItems": 1, "maxItems": 2},
    },
    "required": ["city", "days", "unit", "stops"],
    "additionalProperties": False,
    "$defs": {
        "stop": {
            "type": "object",
            "properties": {"at": {"type": "boolean"}},
            "required": ["at"],
            "additionalProperties": False,
        }
    },
}
CLOCK = {
    "type": "object",
    "properties": {"zone": {"enum": ["UTC", "CET"]}},
    "required": ["zone"],
    "additionalProperties": False,
}
SCHEMAS = {"sky_report": PLAN, "clock": CLOCK}
QUESTION: Any = [{"role": "user", "content": "What is the weather in Lisbon?"}]
GREEDY: dict[str, Any] = {"temperature": 0}
SEEDED: dict[str, Any] = {"temperature": 1.2, "seed": 0}
NAMED: Any = {"type": "function", "function": {"name": "sky_report"}}


# The call format of llama_coder_tools differs from its template, so it is configured.
CAPABILITIES = '[llama_coder_tools]\ntools = "yes"\ntool_parser = "qwen3_coder"\ntool_delivery = "template"\n'
NAMES = ["glm4_tools", "lfm2_tools", "mistral_tools", "llama_coder_tools"]


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HostedServer]:
    """One server for all models, called like their directories."""
    config = tmp_path_factory.mktemp("config")
    (config / "mlxctl").mkdir()
    (config / "mlxctl" / "capabilities.toml").write_text(CAPABILITIES)
    models = [argument for name in NAMES for argument in ("--model", str(tiny_models.trained(name)))]
    with hosting(None, *models, XDG_CONFIG_HOME=str(config)) as running:
        yield running


@pytest.fixture(scope="module", params=NAMES)
def model(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def gpt(served: HostedServer) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{served.url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(served: HostedServer) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=served.url, api_key="unused", max_retries=0) as client:
        yield client


CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": name, "parameters": schema}} for name, schema in SCHEMAS.items()
]
MESSAGE_TOOLS: Any = [{"name": name, "input_schema": schema} for name, schema in SCHEMAS.items()]


@pytest.mark.parametrize(
    ("choice", "sampling"), [("required", GREEDY), ("required", SEEDED), (NAMED, SEEDED)]
)
def test_openais_forced_calls_fit_whole_and_streamed(
    gpt: openai.OpenAI, model: str, choice: Any, sampling: dict[str, Any]
) -> None:
    body: Any = {
        "model": model,
        "messages": QUESTION,
        "max_tokens": 400,
        "tools": CHAT_TOOLS,
        "tool_choice": choice,
        **sampling,
    }
    whole = gpt.chat.completions.create(**body, parallel_tool_calls=False).choices[0]
    (call,) = whole.message.tool_calls or []
    chunks = list(gpt.chat.completions.create(**body, parallel_tool_calls=False, stream=True))
    parts = [
        part.function for chunk in chunks if chunk.choices for part in chunk.choices[0].delta.tool_calls or []
    ]

    assert whole.finish_reason == "tool_calls"
    jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    assert "".join(part.arguments or "" for part in parts) == call.function.arguments


@pytest.mark.parametrize(
    "choice", [{"type": "any"}, {"type": "tool", "name": "sky_report"}], ids=["any", "named"]
)
def test_anthropics_forced_calls_fit_whole_and_streamed(
    claude: anthropic.Anthropic, model: str, choice: Any
) -> None:
    body: Any = {
        "model": model,
        "messages": QUESTION,
        "max_tokens": 400,
        "tools": MESSAGE_TOOLS,
        "tool_choice": choice,
    }
    with claude.messages.stream(**body) as stream:
        answers = [claude.messages.create(**body), stream.get_final_message()]
    for answer in answers:
        assert answer.stop_reason == "tool_use"
        for block in answer.content:
            assert block.type == "tool_use"
            jsonschema.validate(block.input, SCHEMAS[block.name])


@pytest.mark.parametrize("is_strict", [True, False])
def test_strict_tool_calls_fit_their_schema(
    gpt: openai.OpenAI, claude: anthropic.Anthropic, model: str, is_strict: bool
) -> None:
    cities = ["Oslo", "Paris"]
    schema = {
        "type": "object",
        "properties": {"city": {"type": "string", "enum": cities}},
        "required": ["city"],
    }
    tool = {"name": "sky_report", "description": "Get the weather of a city", "strict": is_strict}
    body: Any = {"model": model, "messages": QUESTION, "max_tokens": 100}
    chat_tool: Any = {"type": "function", "function": {**tool, "parameters": schema}}
    message_tool: Any = {**tool, "input_schema": schema}

    answer = gpt.chat.completions.create(**body, tools=[chat_tool], temperature=0).choices[0]
    message = claude.messages.create(**body, tools=[message_tool], extra_body={"temperature": 0})
    (call,) = answer.message.tool_calls or []
    (use,) = (block for block in message.content if block.type == "tool_use")
    assert json.loads(call.function.arguments) == use.input
    assert (use.input["city"] in cities) is is_strict
