"""Structured output of the demo model, which thinks first, whole and streamed."""

import json
from collections.abc import Iterator
from typing import Any

import anthropic
import jsonschema
import openai
import pytest

from .hosted import hosting
from .process import ServerProcess

PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "tags": {"type": "array", "items": {"enum": ["new", "old"]}, "maxItems": 3},
        "note": {"anyOf": [{"type": "null"}, {"$ref": "#/$defs/note"}]},
    },
    "required": ["name", "age", "tags", "note"],
    "additionalProperties": False,
    "$defs": {"note": {"type": "string", "maxLength": 8}},
}
WEATHER = {
    "type": "object",
    "properties": {
        "city": {"type": "string", "maxLength": 10},
        "days": {"type": "integer", "minimum": 1, "maximum": 9},
    },
    "required": ["city", "days"],
    "additionalProperties": False,
}
CLOCK = {
    "type": "object",
    "properties": {"zone": {"enum": ["UTC", "CET"]}},
    "required": ["zone"],
    "additionalProperties": False,
}
HELLO: list[Any] = [{"role": "user", "content": "Hello! Who are you?"}]
SAMPLINGS: list[dict[str, Any]] = [
    {"temperature": 0},
    {"temperature": 1.3, "seed": 0},
]


@pytest.fixture(scope="module")
def url(demo_server: ServerProcess) -> str:
    return demo_server.url


@pytest.fixture(scope="module")
def gpt(url: str) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0) as client:
        yield client


@pytest.fixture(scope="module")
def claude(url: str) -> Iterator[anthropic.Anthropic]:
    with anthropic.Anthropic(base_url=url, api_key="unused", max_retries=0) as client:
        yield client


def chat(gpt: openai.OpenAI, **more: Any) -> Any:
    return gpt.chat.completions.create(
        **{"model": "mlxctl-demo", "messages": HELLO, "max_tokens": 400, **more}
    ).choices[0]


def streamed_chat(gpt: openai.OpenAI, **more: Any) -> tuple[str, str]:
    """Return the visible text and the finish reason."""
    stream = gpt.chat.completions.create(
        **{"model": "mlxctl-demo", "messages": HELLO, "max_tokens": 400, "stream": True, **more}
    )
    choices = [chunk.choices[0] for chunk in stream if chunk.choices]
    return "".join(choice.delta.content or "" for choice in choices), next(
        c.finish_reason for c in reversed(choices) if c.finish_reason
    )


def json_schema(schema: Any, **more: Any) -> Any:
    return {"type": "json_schema", "json_schema": {"name": "form", "schema": schema, **more}}


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("thinks", [True, False])
def test_answer_fits_its_schema_after_thinking(
    gpt: openai.OpenAI, sampling: dict[str, Any], thinks: bool
) -> None:
    sent = {
        "response_format": json_schema(PERSON, strict=True),
        "extra_body": {"enable_thinking": thinks},
        **sampling,
    }
    whole = chat(gpt, **sent)
    text, reason = streamed_chat(gpt, **sent)

    assert whole.finish_reason == reason == "stop"
    jsonschema.validate(json.loads(whole.message.content), PERSON)
    assert text == whole.message.content
    assert bool(getattr(whole.message, "reasoning_content", None)) is thinks


@pytest.mark.parametrize(
    ("sent", "form"),
    [
        ({"guided_choice": ["red", "green"]}, {"enum": ["red", "green"]}),
        ({"structured_outputs": {"choice": ["red", "green"]}}, {"enum": ["red", "green"]}),
        ({"guided_regex": "[a-z]{3}-[0-9]{2}"}, {"pattern": "^[a-z]{3}-[0-9]{2}$"}),
        ({"structured_outputs": {"regex": "[a-z]{3}-[0-9]{2}"}}, {"pattern": "^[a-z]{3}-[0-9]{2}$"}),
        ({"guided_grammar": 'start: "a" /[0-9]/ "b"'}, {"pattern": "^a[0-9]b$"}),
        ({"grammar": 'root ::= "a" [0-9] "b"'}, {"pattern": "^a[0-9]b$"}),
        ({"ebnf": 'root ::= "a" [0-9] "b"'}, {"pattern": "^a[0-9]b$"}),
        ({"regex": "a[0-9]b"}, {"pattern": "^a[0-9]b$"}),
        (
            {"response_format": {"type": "grammar", "grammar": 'root ::= "a" [0-9] "b"'}},
            {"pattern": "^a[0-9]b$"},
        ),
    ],
)
def test_choices_patterns_and_grammars_are_enforced(gpt: openai.OpenAI, sent: Any, form: Any) -> None:
    jsonschema.validate(chat(gpt, extra_body=sent).message.content, form)
    if "response_format" not in sent:
        completion = gpt.completions.create(
            model="mlxctl-demo", prompt="Say: ", max_tokens=50, extra_body=sent
        ).choices[0]
        jsonschema.validate(completion.text, form)
        assert completion.finish_reason == "stop"


@pytest.mark.parametrize("field", ["guided_json", "structured_outputs"])
def test_guided_and_structured_outputs_fields_are_enforced(gpt: openai.OpenAI, field: str) -> None:
    sent = {field: PERSON if field == "guided_json" else {"json": json.dumps(PERSON)}}
    jsonschema.validate(json.loads(chat(gpt, extra_body=sent).message.content), PERSON)


def test_responses_enforce_text_format(gpt: openai.OpenAI) -> None:
    form: Any = {"format": {"type": "json_schema", "name": "person", "schema": PERSON, "strict": True}}
    response = gpt.responses.create(model="mlxctl-demo", input="Hello!", text=form)
    assert response.status == "completed"
    assert response.text is not None
    assert response.text.format is not None
    assert response.text.format.to_dict() == form["format"] | {"description": None}
    jsonschema.validate(json.loads(response.output_text), PERSON)
    with gpt.responses.stream(model="mlxctl-demo", input="Hello!", text=form, temperature=1.0) as stream:
        jsonschema.validate(json.loads(stream.get_final_response().output_text), PERSON)


@pytest.mark.parametrize("field", ["output_config", "output_format"])
def test_messages_enforce_output_config_and_output_format(claude: anthropic.Anthropic, field: str) -> None:
    form = {"type": "json_schema", "schema": PERSON}
    body = {field: {"format": form} if field == "output_config" else form}
    message = claude.messages.create(model="mlxctl-demo", max_tokens=400, messages=HELLO, extra_body=body)
    assert message.stop_reason == "end_turn"
    text = "".join(block.text for block in message.content if block.type == "text")
    jsonschema.validate(json.loads(text), PERSON)


def test_truncated_answer_has_finish_reason_length(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    sent = {
        "response_format": json_schema(PERSON),
        "max_tokens": 8,
        "extra_body": {"enable_thinking": False},
    }
    assert chat(gpt, **sent).finish_reason == "length"
    assert streamed_chat(gpt, **sent)[1] == "length"
    form: Any = {"format": {"type": "json_schema", "schema": PERSON}}
    cut = claude.messages.create(
        model="mlxctl-demo",
        max_tokens=8,
        messages=HELLO,
        thinking={"type": "disabled"},
        extra_body={"output_config": form},
    )
    assert cut.stop_reason == "max_tokens"


TOOLS: Any = [
    {"type": "function", "function": {"name": "weather", "parameters": WEATHER}},
    {"type": "function", "function": {"name": "clock", "parameters": CLOCK}},
]
SCHEMAS = {tool["function"]["name"]: tool["function"]["parameters"] for tool in TOOLS}


@pytest.mark.parametrize("sampling", SAMPLINGS)
@pytest.mark.parametrize("choice", ["required", {"type": "function", "function": {"name": "weather"}}])
def test_forced_calls_have_fitting_arguments(
    gpt: openai.OpenAI, choice: Any, sampling: dict[str, Any]
) -> None:
    whole = chat(gpt, tools=TOOLS, tool_choice=choice, parallel_tool_calls=False, **sampling)
    (call,) = whole.message.tool_calls
    assert whole.finish_reason == "tool_calls"
    jsonschema.validate(json.loads(call.function.arguments), SCHEMAS[call.function.name])
    if choice != "required":
        assert call.function.name == "weather"


@pytest.mark.parametrize("seed", range(3))
def test_strict_tool_calls_fit_with_auto_choice(
    claude: anthropic.Anthropic, gpt: openai.OpenAI, seed: int
) -> None:
    question: Any = [{"role": "user", "content": "What is the weather in Paris?"}]
    strict: Any = [{**TOOLS[0], "function": {**TOOLS[0]["function"], "strict": True}}]
    answer = chat(gpt, messages=question, tools=strict, temperature=0.8, seed=seed)
    for call in answer.message.tool_calls or ():
        jsonschema.validate(json.loads(call.function.arguments), WEATHER)
    tool: Any = {"name": "weather", "input_schema": WEATHER, "strict": True}
    message = claude.messages.create(model="mlxctl-demo", max_tokens=200, messages=question, tools=[tool])
    (use,) = (block for block in message.content if block.type == "tool_use")
    jsonschema.validate(use.input, WEATHER)


def test_anthropics_forced_calls_fit(claude: anthropic.Anthropic) -> None:
    tool: Any = {"name": "weather", "input_schema": WEATHER}
    for choice in ({"type": "any"}, {"type": "tool", "name": "weather"}):
        with claude.messages.stream(
            model="mlxctl-demo",
            max_tokens=200,
            messages=HELLO,
            tools=[tool],
            tool_choice=choice,  # type: ignore[arg-type]
        ) as stream:
            (use,) = (block for block in stream.get_final_message().content if block.type == "tool_use")
        jsonschema.validate(use.input, WEATHER)


def test_thinking_budget_ends_thinking(gpt: openai.OpenAI, claude: anthropic.Anthropic) -> None:
    free = chat(gpt, extra_body={"enable_thinking": True})
    short = chat(gpt, extra_body={"enable_thinking": True, "thinking_budget": 2})
    formed = chat(
        gpt, response_format=json_schema(PERSON), extra_body={"enable_thinking": True, "thinking_budget": 2}
    )
    message = claude.messages.create(
        model="mlxctl-demo", max_tokens=300, messages=HELLO, thinking={"type": "enabled", "budget_tokens": 2}
    )

    assert free.message.reasoning_content.startswith(short.message.reasoning_content.strip())
    assert 0 < len(short.message.reasoning_content) < len(free.message.reasoning_content)
    assert short.message.content
    jsonschema.validate(json.loads(formed.message.content), PERSON)
    assert [block.type for block in message.content] == ["thinking", "text"]


@pytest.mark.parametrize(
    ("body", "param"),
    [
        ({"response_format": json_schema({"type": "objekt"})}, "response_format.json_schema.schema"),
        (
            {"response_format": json_schema({"properties": {"a": {"type": 1}}})},
            "response_format.json_schema.schema.properties.a",
        ),
        (
            {"response_format": json_schema({"uniqueItems": True}, strict=True)},
            "response_format.json_schema.schema",
        ),
        ({"guided_regex": "("}, "guided_regex"),
        ({"grammar": "root ::= nowhere"}, "grammar"),
        ({"guided_json": "no json"}, "guided_json"),
        ({"guided_json": {"enum": ["x" * 200_000]}}, "guided_json"),
        ({"guided_regex": "a", "guided_choice": ["a"]}, "guided_choice"),
        ({"structured_outputs": {"structural_tag": {}}}, "structured_outputs.structural_tag"),
        ({"response_format": {"type": "json_object"}, "min_tokens": 5}, "min_tokens"),
        ({"hlg": {"enabled": True}, "top_k": 5}, "top_k"),
        ({"hlg": {"enabled": True}, "top_p": 0.5}, "top_p"),
    ],
)
def test_unenforceable_constraints_return_400(gpt: openai.OpenAI, body: Any, param: str) -> None:
    with pytest.raises(openai.BadRequestError) as refused:
        chat(gpt, extra_body=body)
    assert refused.value.param == param
    assert param.rpartition(".")[2] in str(refused.value)
    assert chat(gpt, max_tokens=1)


def test_server_tone_curve_is_the_default(gpt: openai.OpenAI) -> None:
    def content_of(client: openai.OpenAI, **more: Any) -> str:
        sent = {
            "temperature": 1.0,
            "seed": 5,
            "max_tokens": 40,
            "extra_body": {"enable_thinking": False, **more},
        }
        return str(chat(client, **sent).message.content)

    flat = {"enabled": True, "width": 0.1, "shoulder": 0.1, "toe": 0.1, "pivot_offset": 0.1}
    flags = [
        text
        for name, value in flat.items()
        if name != "enabled"
        for text in (f"--hlg-{name.replace('_', '-')}", str(value))
    ]
    with (
        hosting(None, "--hlg", *flags) as server,
        openai.OpenAI(base_url=f"{server.url}/v1", api_key="unused") as curved,
    ):
        assert content_of(curved) == content_of(gpt, hlg=flat) != content_of(gpt)
        assert content_of(curved, hlg={"enabled": False}) == content_of(gpt)
