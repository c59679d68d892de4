"""Invalid bodies: status 400, and the error names the field."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from copy import deepcopy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir import GenerationRequest, StoredAgent
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import (
    PROTOCOLS,
    ErrorBody,
    StoredHistory,
    anthropic_error,
    openai_error,
    parse_agent,
    parse_agent_change,
    parse_count_tokens,
)
from mlxctl.protocols.openai.agents.turns import parse_turn, parse_turn_with
from mlxctl.protocols.openai.embeddings import parse_embeddings

NESTED = json.loads('{"a":' * 200 + "1" + "}" * 200)
SAMPLES = {
    "string": "x",
    "integer": 1,
    "number": 1.5,
    "boolean": True,
    "array": [],
    "object": {},
    "null": None,
}

# Fields that all of OpenAI's endpoints share: how to sample, and what form the answer has.
SHARED: dict[str, Any] = {"hlg": {"enabled": False}, "structured_outputs": {"choice": ["a"]}}
SHARED_KINDS = {
    "typical_p": "integer number null",
    "xtc_probability": "integer number null",
    "xtc_threshold": "integer number null",
    "dry_multiplier": "integer number null",
    "dry_base": "integer number null",
    "dry_allowed_length": "integer null",
    "dry_penalty_last_n": "integer null",
    "dry_sequence_breakers": "array null",
    "min_tokens": "integer null",
    "speculation": "boolean null",
    "hlg": "object null",
    "hlg.enabled": "boolean null",
    "hlg.width": "integer number null",
    "hlg.shoulder": "integer number null",
    "hlg.toe": "integer number null",
    "hlg.pivot_offset": "integer number null",
    "structured_outputs": "object null",
    "structured_outputs.json": "string object null",
    "structured_outputs.regex": "string null",
    "structured_outputs.choice": "array null",
    "structured_outputs.choice[0]": "string",
    "structured_outputs.grammar": "string null",
    "structured_outputs.json_object": "boolean null",
    "guided_json": "string object null",
    "guided_regex": "string null",
    "guided_choice": "array null",
    "guided_grammar": "string null",
    "grammar": "string null",
    "regex": "string null",
    "ebnf": "string null",
}

# A body with every field, and the kinds of JSON that may stand at each path; "any" kinds are not listed
# because nothing is wrong.
CHAT = {
    **SHARED,
    "model": "tiny",
    "messages": [
        {"role": "system", "content": [{"type": "text", "text": "Be kind."}], "name": "owner"},
        {
            "role": "user",
            "content": [
                {"type": "image_url", "image_url": {"url": "data:image/png;base64,QUFB"}},
                {"type": "input_audio", "input_audio": {"data": "QUFB", "format": "wav"}},
            ],
        },
        {
            "role": "assistant",
            "content": "Let me see.",
            "reasoning_content": "Hm.",
            "tool_calls": [{"id": "c1", "type": "function", "function": {"name": "f", "arguments": "{}"}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ],
    "tools": [
        {"type": "function", "function": {"name": "f", "description": "d", "parameters": {}, "strict": True}}
    ],
    "tool_choice": {"type": "function", "function": {"name": "f"}},
    "stream": True,
    "stream_options": {"include_usage": True},
    "response_format": {"type": "text"},
    "chat_template_kwargs": {},
}
CHAT_KINDS = {
    **SHARED_KINDS,
    "thinking_budget": "integer null",
    "model": "string",
    "messages": "array",
    "messages[0]": "object",
    "messages[0].role": "string",
    "messages[0].content": "string array",
    "messages[0].content[0]": "object",
    "messages[0].content[0].type": "string",
    "messages[0].content[0].text": "string",
    "messages[0].name": "string null",
    "messages[1].content": "string array",
    "messages[1].content[0].image_url": "object",
    "messages[1].content[0].image_url.url": "string",
    "messages[1].content[1].input_audio": "object",
    "messages[1].content[1].input_audio.data": "string",
    "messages[1].content[1].input_audio.format": "string",
    "messages[2].content": "string array null",
    "messages[2].reasoning_content": "string null",
    "messages[2].tool_calls": "array null",
    "messages[2].tool_calls[0]": "object",
    "messages[2].tool_calls[0].id": "string",
    "messages[2].tool_calls[0].type": "string null",
    "messages[2].tool_calls[0].function": "object",
    "messages[2].tool_calls[0].function.name": "string",
    "messages[2].tool_calls[0].function.arguments": "string",
    "messages[3].tool_call_id": "string",
    "messages[3].content": "string array",
    "tools": "array null",
    "tools[0]": "object",
    "tools[0].type": "string null",
    "tools[0].function": "object",
    "tools[0].function.name": "string",
    "tools[0].function.description": "string null",
    "tools[0].function.parameters": "object null",
    "tools[0].function.strict": "boolean null",
    "tool_choice": "string object null",
    "tool_choice.type": "string",
    "tool_choice.function": "object",
    "tool_choice.function.name": "string",
    "parallel_tool_calls": "boolean null",
    "max_completion_tokens": "integer null",
    "max_tokens": "integer null",
    "temperature": "integer number null",
    "top_p": "integer number null",
    "top_k": "integer null",
    "min_p": "integer number null",
    "repetition_penalty": "integer number null",
    "presence_penalty": "integer number null",
    "frequency_penalty": "integer number null",
    "logit_bias": "object null",
    "seed": "integer null",
    "stop": "string array null",
    "logprobs": "boolean null",
    "top_logprobs": "integer null",
    "stream": "boolean null",
    "stream_options": "object null",
    "stream_options.include_usage": "boolean null",
    "reasoning_effort": "string null",
    "enable_thinking": "boolean null",
    "chat_template_kwargs": "object null",
    "chat_template_kwargs.enable_thinking": "boolean null",
    "n": "integer null",
    "response_format": "object null",
    "response_format.type": "string",
    "modalities": "array null",
    "functions": "array null",
}
MESSAGES = {
    "model": "tiny",
    "max_tokens": 9,
    "system": [{"type": "text", "text": "Be kind."}],
    "messages": [
        {
            "role": "user",
            "content": [
                {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QUFB"}}
            ],
        },
        {
            "role": "assistant",
            "content": [
                {"type": "thinking", "thinking": "Hm.", "signature": "s"},
                {"type": "tool_use", "id": "t1", "name": "f", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {
                    "type": "tool_result",
                    "tool_use_id": "t1",
                    "content": [{"type": "text", "text": "done"}],
                    "is_error": False,
                },
            ],
        },
    ],
    "tools": [
        {"name": "f", "description": "d", "input_schema": {}, "type": "custom", "defer_loading": False}
    ],
    "tool_choice": {"type": "tool", "name": "f", "disable_parallel_tool_use": False},
    "thinking": {"type": "disabled"},
    "output_config": {"effort": "low", "format": {"type": "json_schema", "schema": {}}},
}
MESSAGES_KINDS = {
    "model": "string",
    "max_tokens": "integer",
    "system": "string array null",
    "system[0]": "object",
    "system[0].text": "string",
    "messages": "array",
    "messages[0]": "object",
    "messages[0].role": "string",
    "messages[0].content": "string array",
    "messages[0].content[0].type": "string",
    "messages[0].content[0].source": "object",
    "messages[0].content[0].source.type": "string",
    "messages[0].content[0].source.media_type": "string",
    "messages[0].content[0].source.data": "string",
    "messages[1].content": "string array",
    "messages[1].content[0].thinking": "string",
    "messages[1].content[0].signature": "string null",
    "messages[1].content[1].id": "string",
    "messages[1].content[1].name": "string",
    "messages[1].content[1].input": "object",
    "messages[2].content[0].tool_use_id": "string",
    "messages[2].content[0].content": "string array null",
    "messages[2].content[0].content[0]": "object",
    "messages[2].content[0].is_error": "boolean null",
    "tools": "array null",
    "tools[0]": "object",
    "tools[0].name": "string",
    "tools[0].type": "string null",
    "tools[0].description": "string null",
    "tools[0].input_schema": "object null",
    "tools[0].defer_loading": "boolean null",
    "tools[0].strict": "boolean null",
    "tool_choice": "object null",
    "tool_choice.type": "string",
    "tool_choice.name": "string",
    "tool_choice.disable_parallel_tool_use": "boolean null",
    "stop_sequences": "array null",
    "temperature": "integer number null",
    "top_p": "integer number null",
    "top_k": "integer null",
    "thinking": "object null",
    "thinking.type": "string",
    "thinking.budget_tokens": "integer null",
    "thinking.display": "string null",
    "output_config": "object null",
    "output_config.effort": "string null",
    "output_config.format": "object null",
    "output_config.format.type": "string",
    "output_config.format.schema": "object",
    "output_format": "object null",
    "stream": "boolean null",
}
COMPLETION = {
    **SHARED,
    "model": "tiny",
    "prompt": ["Once upon"],
    "stream": True,
    "stream_options": {"include_usage": True},
}
COMPLETION_KINDS = {
    **SHARED_KINDS,
    "model": "string",
    "prompt": "string array",
    "prompt[0]": "string integer array",
    "n": "integer null",
    "best_of": "integer null",
    "max_tokens": "integer null",
    "temperature": "integer number null",
    "top_p": "integer number null",
    "top_k": "integer null",
    "min_p": "integer number null",
    "repetition_penalty": "integer number null",
    "presence_penalty": "integer number null",
    "frequency_penalty": "integer number null",
    "logit_bias": "object null",
    "seed": "integer null",
    "stop": "string array null",
    "logprobs": "integer null",
    "echo": "boolean null",
    "suffix": "string null",
    "stream": "boolean null",
    "stream_options": "object null",
    "stream_options.include_usage": "boolean null",
}
RESPONSES = {
    **SHARED,
    "model": "tiny",
    "input": [
        {"type": "message", "role": "developer", "content": "Be kind."},
        {
            "type": "message",
            "role": "user",
            "content": [
                {"type": "input_text", "text": "Look"},
                {"type": "input_image", "image_url": "data:image/png;base64,QUFB"},
            ],
        },
        {
            "type": "reasoning",
            "summary": [{"text": "s"}],
            "content": [{"text": "c"}],
            "encrypted_content": "e",
        },
        {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}", "namespace": "n"},
        {"type": "function_call_output", "call_id": "c1", "output": [{"type": "input_text", "text": "done"}]},
    ],
    "tools": [
        {"type": "function", "name": "f", "description": "d", "parameters": {}, "strict": True},
        {"type": "namespace", "name": "n", "description": "d", "tools": [{"type": "function", "name": "f"}]},
    ],
    "tool_choice": {"type": "function", "name": "f", "namespace": "n"},
    "reasoning": {"effort": "low", "summary": "auto"},
    "text": {"format": {"type": "text"}, "verbosity": "low"},
}
RESPONSES_KINDS = {
    **SHARED_KINDS,
    "thinking_budget": "integer null",
    "model": "string",
    "input": "string array",
    "input[0]": "object",
    "input[0].type": "string null",
    "input[0].role": "string",
    "input[0].content": "string array",
    "input[1].content[0]": "object",
    "input[1].content[0].type": "string",
    "input[1].content[0].text": "string",
    "input[1].content[1].image_url": "string null",
    "input[2].summary": "array null",
    "input[2].summary[0]": "object",
    "input[2].summary[0].text": "string",
    "input[2].content": "array null",
    "input[2].content[0].text": "string",
    "input[2].encrypted_content": "string null",
    "input[3].call_id": "string",
    "input[3].name": "string",
    "input[3].arguments": "string",
    "input[3].namespace": "string null",
    "input[4].call_id": "string",
    "input[4].output": "string array",
    "input[4].output[0]": "object",
    "instructions": "string null",
    "previous_response_id": "string null",
    "tools": "array null",
    "tools[0]": "object",
    "tools[0].type": "string",
    "tools[0].name": "string",
    "tools[0].description": "string null",
    "tools[0].parameters": "object null",
    "tools[0].strict": "boolean null",
    "tools[1].name": "string",
    "tools[1].tools": "array",
    "tools[1].tools[0]": "object",
    "tools[1].tools[0].type": "string",
    "tools[1].tools[0].name": "string",
    "tool_choice": "string object null",
    "tool_choice.type": "string",
    "tool_choice.name": "string",
    "tool_choice.namespace": "string null",
    "parallel_tool_calls": "boolean null",
    "max_output_tokens": "integer null",
    "max_tool_calls": "integer null",
    "temperature": "integer number null",
    "top_p": "integer number null",
    "top_k": "integer null",
    "min_p": "integer number null",
    "repetition_penalty": "integer number null",
    "presence_penalty": "integer number null",
    "frequency_penalty": "integer number null",
    "seed": "integer null",
    "top_logprobs": "integer null",
    "include": "array null",
    "reasoning": "object null",
    "reasoning.effort": "string null",
    "reasoning.summary": "string null",
    "text": "object null",
    "text.format": "object null",
    "text.format.type": "string",
    "text.verbosity": "string null",
    "truncation": "string null",
    "store": "boolean null",
    "stream": "boolean null",
    "metadata": "object null",
    "prompt_cache_key": "string null",
    "safety_identifier": "string null",
    "user": "string null",
    "background": "boolean null",
}
ABOUT_THE_ANSWER = {"max_tokens", "temperature", "top_p", "top_k", "stop_sequences", "stream"}
COUNT = {key: value for key, value in MESSAGES.items() if key not in ABOUT_THE_ANSWER}
COUNT_KINDS = {path: kinds for path, kinds in MESSAGES_KINDS.items() if path not in ABOUT_THE_ANSWER}
AGENT: dict[str, Any] = {
    "id": "a1",
    "model": "tiny",
    "instructions": "Be kind.",
    "tools": CHAT["tools"],
    "context_overflow": "error",
    "metadata": {"a": "b"},
}
AGENT_KINDS = {
    "id": "string null",
    "model": "string",
    "instructions": "string null",
    "context_overflow": "string",
    "metadata": "object null",
    **{path: kinds for path, kinds in CHAT_KINDS.items() if path.startswith("tools")},
}
CHANGE = {key: value for key, value in AGENT.items() if key != "id"}
CHANGE_KINDS = {path: kinds for path, kinds in AGENT_KINDS.items() if path != "id"}
TURN = {**CHAT, "context_overflow": "error"}
TURN_KINDS = {**CHAT_KINDS, "model": "string null", "context_overflow": "string null"}
EMBEDDINGS = {
    "model": "tiny",
    "input": ["a"],
    "encoding_format": "float",
    "dimensions": 8,
    "prompt_name": "query",
    "truncate": False,
}
EMBEDDINGS_KINDS = {
    "model": "string",
    "input": "string array",
    "input[0]": "string integer array",
    "encoding_format": "string null",
    "dimensions": "integer null",
    "prompt_name": "string null",
    "truncate": "boolean null",
}


def turn_of(body: bytes) -> GenerationRequest:
    """Parse a turn of an agent without history."""
    parse_turn(body)
    agent = StoredAgent(
        number=1,
        id="a1",
        model="tiny",
        settings=b"{}",
        created=0.0,
        last_access=0.0,
        revision=0,
        num_messages=0,
        num_bytes=0,
    )
    return parse_turn_with(body, StoredHistory(agent=agent, messages=()))[0]


Parse = Callable[[bytes], Any]
CASES: dict[str, tuple[Callable[[], Parse], dict[str, Any], dict[str, str], Callable[..., ErrorBody]]] = {
    "chat": (lambda: PROTOCOLS["chat"].parse_alone, CHAT, CHAT_KINDS, openai_error),
    "completions": (lambda: PROTOCOLS["completions"].parse_alone, COMPLETION, COMPLETION_KINDS, openai_error),
    "responses": (lambda: PROTOCOLS["responses"].parse_alone, RESPONSES, RESPONSES_KINDS, openai_error),
    "messages": (lambda: PROTOCOLS["messages"].parse_alone, MESSAGES, MESSAGES_KINDS, anthropic_error),
    "count_tokens": (lambda: parse_count_tokens, COUNT, COUNT_KINDS, anthropic_error),
    "agents": (lambda: parse_agent, AGENT, AGENT_KINDS, openai_error),
    "agent changes": (lambda: parse_agent_change, CHANGE, CHANGE_KINDS, openai_error),
    "agent turns": (lambda: turn_of, TURN, TURN_KINDS, openai_error),
    "embeddings": (
        lambda: lambda body: parse_embeddings(body)[0],
        EMBEDDINGS,
        EMBEDDINGS_KINDS,
        openai_error,
    ),
}


def wrong_types(protocol: str) -> Iterator[tuple[str, str]]:
    """Yield each path of a body with each kind it excludes."""
    for path, right in CASES[protocol][2].items():
        for kind in sorted(SAMPLES.keys() - right.split()):
            yield path, kind


def with_value(body: dict[str, Any], path: str, value: object) -> dict[str, Any]:
    """Return a copy of `body` with `value` at `path`."""
    changed: Any = deepcopy(body)
    here = changed
    *holders, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    for step in holders:
        here = here[step]
    here[last] = value
    return changed  # type: ignore[no-any-return]


def refusal(protocol: str, body: object) -> InvalidRequest:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    error = None
    try:
        CASES[protocol][0]()(data)
    except InvalidRequest as refused:
        error = refused
    assert error is not None, f"{protocol} takes {data[:2000]!r}"
    assert CASES[protocol][3](error).status == 400
    return error


@pytest.mark.parametrize("protocol", CASES)
def test_full_body_is_accepted(protocol: str) -> None:
    create, body, _, _ = CASES[protocol]
    assert create()(json.dumps(body).encode()).model == "tiny"


@pytest.mark.parametrize("protocol", CASES)
def test_wrong_type_is_refused_with_its_path(protocol: str) -> None:
    for path, kind in wrong_types(protocol):
        error = refusal(protocol, with_value(CASES[protocol][1], path, SAMPLES[kind]))
        assert error.param is not None, (path, kind)
        assert whole_place(error.param) == whole_place(path), (path, kind)
        assert str(error).startswith(error.param), (path, kind)


def whole_place(path: str) -> str:
    """Return the path of the object whose kind or role is wrong."""
    return path.removesuffix(".type").removesuffix(".role")


@pytest.mark.parametrize("protocol", CASES)
def test_half_of_a_surrogate_pair_is_read_as_a_replacement(protocol: str) -> None:
    create, body, _, _ = CASES[protocol]
    for escapes, text in (
        (rb"\ud83d", "\ufffd"),
        (rb"a\uDD25b", "a\ufffdb"),
        (rb"\ud83d\ud83d\ude00", "\ufffd\U0001f600"),
        (rb"\\ud83d\ude00", "\\ud83d\ufffd"),
        (rb"\n\ud83d\\", "\n\ufffd\\"),
    ):
        sent = json.dumps({**body, "model": "MODEL"}).encode().replace(b"MODEL", escapes)
        assert create()(sent).model == text


@pytest.mark.parametrize(
    ("body", "part"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b'{"model": "m",}', "not valid JSON"),
        (b'{"temperature": NaN}', "not valid JSON"),
        (b'{"temperature": Infinity}', "not valid JSON"),
        (b'{"model": "\\ud80"}', "not valid JSON"),
        (b'{"model": "\xff"}', "not valid UTF-8"),
        (b"\xff", "not valid JSON"),
        (b"[]", "must be an object, not an array"),
        (b"null", "must be an object, not null"),
        (b'{"unknown": ' + b"[" * 100_000, "nested too deeply"),
        (b'{"temperature": "hot", "unknown": [1 2]}', "not valid JSON"),
        (b'{"thinking": {"type": 5}, "reasoning_effort": "huge", "seed": 1e999', "not valid JSON"),
    ],
)
def test_body_that_is_no_json_object_is_refused(body: bytes, part: str) -> None:
    for protocol in CASES:
        assert part in str(refusal(protocol, body)), protocol


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("stream_options", 5),
        ("stream_options.include_obfuscation", "no"),
        ("context_management", {}),
        ("prompt_cache_retention", 5),
        ("prompt_cache_options", []),
        ("background_options", "a"),
        ("access_programs", "a"),
    ],
)
def test_types_of_fields_without_effect_are_checked_in_responses(field: str, value: object) -> None:
    head, _, inner = field.partition(".")
    body = {**RESPONSES, head: {inner: value} if inner else value}
    assert refusal("responses", body).param == field


@pytest.mark.parametrize("protocol", ["chat", "completions"])
@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("user", 5),
        ("store", "yes"),
        ("metadata", "a"),
        ("safety_identifier", 5),
        ("prompt_cache_key", {}),
        ("prediction", "a"),
    ],
)
def test_types_of_fields_without_effect_are_checked(protocol: str, field: str, value: object) -> None:
    assert refusal(protocol, {**CASES[protocol][1], field: value}).param == field


@pytest.mark.parametrize("field", ["metadata", "inference_geo", "speed", "diagnostics"])
def test_types_of_fields_without_effect_are_checked_in_messages(field: str) -> None:
    assert refusal("messages", {**CASES["messages"][1], field: 5}).param == field


@pytest.mark.parametrize(
    ("path", "values"),
    [
        ("model", [""]),
        ("messages", [[]]),
        ("temperature", [-0.1, 100.1, 10**400]),
        ("top_p", [-0.1, 1.01]),
        ("top_k", [-2]),
        ("max_tokens", [-2, 1.5]),
        ("stream", ["true", 1]),
    ],
)
@pytest.mark.parametrize("protocol", ["chat", "messages"])
def test_out_of_range_values_are_refused_in_all_protocols(
    protocol: str, path: str, values: list[object]
) -> None:
    assert {refusal(protocol, with_value(CASES[protocol][1], path, value)).param for value in values} == {
        path
    }


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        ("min_p", 1.5, "min_p"),
        ("repetition_penalty", 0, "repetition_penalty"),
        ("repetition_penalty", 11, "repetition_penalty"),
        ("presence_penalty", 2.5, "presence_penalty"),
        ("frequency_penalty", -2.5, "frequency_penalty"),
        ("max_tokens", 0, "max_tokens"),
        ("max_completion_tokens", 0, "max_completion_tokens"),
        ("seed", 2**63, "seed"),
        ("top_logprobs", 21, "top_logprobs"),
        ("top_logprobs", -1, "top_logprobs"),
        ("top_logprobs", 2, "top_logprobs"),
        ("stop", "", "stop"),
        ("stop", ["a", ""], "stop[1]"),
        ("stop", ["a"] * 17, "stop"),
        ("logit_bias", {"1": 100.5}, "logit_bias"),
        ("logit_bias", {"-1": 1}, "logit_bias"),
        ("logit_bias", {"one": 1}, "logit_bias"),
        ("logit_bias", {"1": "x"}, "logit_bias"),
        ("logit_bias", {str(key): 1 for key in range(1025)}, "logit_bias"),
        ("n", 0, "n"),
        ("n", 129, "n"),
        ("reasoning_effort", "huge", "reasoning_effort"),
        ("messages[0].role", "robot", "messages[0].role"),
        ("messages[0].content[0].type", "video_url", "messages[0].content[0].type"),
        (
            "messages[1].content[0].image_url.url",
            "data:image/png;base64,%%%",
            "messages[1].content[0].image_url.url",
        ),
        (
            "messages[1].content[0].image_url.url",
            "data:image/png;base64,QU%FB",
            "messages[1].content[0].image_url.url",
        ),
        (
            "messages[1].content[0].image_url.url",
            "data:image/png;base64,",
            "messages[1].content[0].image_url.url",
        ),
        ("messages[1].content[1].input_audio.data", "A", "messages[1].content[1].input_audio.data"),
        ("messages[1].content[1].input_audio.format", "midi", "messages[1].content[1].input_audio.format"),
        ("messages[2].tool_calls[0].type", "custom", "messages[2].tool_calls[0].custom"),
        ("messages[2].tool_calls[0]", {"id": "c1"}, "messages[2].tool_calls[0].function"),
        ("messages[3].tool_call_id", "c9", "messages[3].tool_call_id"),
        ("tools", [], "tool_choice"),
        ("tools", [{"type": "function"}], "tools[0].function"),
        ("tools", CHAT["tools"] * 2, "tools[1].function.name"),  # type: ignore[operator]
        ("tools[0].function.name", "", "tools[0].function.name"),
        ("tool_choice", "sometimes", "tool_choice"),
        ("tool_choice.type", "custom", "tool_choice.custom"),
        ("tool_choice.type", "mcp", "tool_choice.type"),
        ("tool_choice", {"type": "custom", "custom": {"name": "g"}}, "tool_choice.custom.name"),
        ("tools", [{"type": "custom"}], "tools[0].custom"),
        ("tools[0]", {"type": "custom", "custom": {"name": ""}}, "tools[0].custom.name"),
        (
            "tools[0]",
            {"type": "custom", "custom": {"name": "f", "format": {"type": "x"}}},
            "tools[0].custom.format.type",
        ),
        (
            "tools[0]",
            {
                "type": "custom",
                "custom": {"name": "f", "format": {"type": "grammar", "grammar": {"syntax": "ebnf"}}},
            },
            "tools[0].custom.format.grammar.syntax",
        ),
        ("modalities", ["smell"], "modalities[0]"),
        ("tool_choice.function.name", "g", "tool_choice.function.name"),
        (
            "tool_choice",
            {
                "type": "allowed_tools",
                "allowed_tools": {"tools": [{"type": "function", "function": {"name": "g"}}]},
            },
            "tool_choice.allowed_tools.tools[0].function.name",
        ),
    ],
)
def test_invalid_chat_values_are_refused(path: str, value: object, param: str) -> None:
    assert refusal("chat", with_value(CHAT, path, value)).param == param


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        ("model", "", "model"),
        ("input", [], "input"),
        ("input", [{"type": "web_search_call"}], "input"),
        ("input[0].type", "telegram", "input[0].type"),
        ("input[0].role", "robot", "input[0].role"),
        ("input[1].content[0].type", "movie", "input[1].content[0].type"),
        ("input[1].content[0]", {"type": "input_file", "file_id": "file_1"}, "input[1].content[0].file_id"),
        (
            "input[1].content[0]",
            {"type": "input_file", "file_url": "https://x"},
            "input[1].content[0].file_url",
        ),
        ("input[1].content[0]", {"type": "input_file"}, "input[1].content[0].file_data"),
        ("input[1].content[1].image_url", "ftp://example.org/cat.png", "input[1].content[1].image_url"),
        ("input[1].content[1].image_url", None, "input[1].content[1].image_url"),
        ("input[1].content[1].file_id", "file_1", "input[1].content[1].file_id"),
        ("input[4].call_id", "c9", "input[4].call_id"),
        ("tools", [], "tool_choice"),
        ("tools", RESPONSES["tools"] * 2, "tools[2].name"),  # type: ignore[operator]
        ("tools[1].tools", [{"type": "function", "name": "f"}] * 2, "tools[1].tools[1].name"),
        ("tools[0].name", "", "tools[0].name"),
        ("tool_choice", "sometimes", "tool_choice"),
        ("tool_choice.type", "web_search", "tool_choice.type"),
        ("tools[0]", {"type": "custom"}, "tools[0].name"),
        (
            "tools[0]",
            {"type": "custom", "name": "f", "format": {"type": "grammar", "syntax": "x"}},
            "tools[0].format.syntax",
        ),
        ("tools", [{"name": "f"}], "tools[0].type"),
        ("tool_choice.name", "g", "tool_choice.name"),
        (
            "tool_choice",
            {"type": "allowed_tools", "tools": [{"type": "function", "name": "g"}]},
            "tool_choice.tools[0].name",
        ),
        (
            "tool_choice",
            {"type": "allowed_tools", "tools": [{"type": "function"}]},
            "tool_choice.tools[0].name",
        ),
        ("tool_choice", {"type": "allowed_tools", "mode": "none", "tools": []}, "tool_choice.mode"),
        ("max_output_tokens", 0, "max_output_tokens"),
        ("temperature", -1, "temperature"),
        ("temperature", 10**400, "temperature"),
        ("top_p", -0.5, "top_p"),
        ("top_logprobs", 21, "top_logprobs"),
        ("seed", 2**63, "seed"),
        ("reasoning.effort", "huge", "reasoning.effort"),
        ("reasoning.summary", "loud", "reasoning.summary"),
        ("text.verbosity", "loud", "text.verbosity"),
        ("truncation", "some", "truncation"),
        ("metadata", {"a": 1}, "metadata"),
        ("include", [5], "include[0]"),
        ("include", ["everything"], "include[0]"),
        ("max_tool_calls", 0, "max_tool_calls"),
    ],
)
def test_invalid_responses_values_are_refused(path: str, value: object, param: str) -> None:
    assert refusal("responses", with_value(RESPONSES, path, value)).param == param


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        ("model", "", "model"),
        ("prompt", [], "prompt"),
        ("prompt", ["a", 1], "prompt[1]"),
        ("prompt", [1, "a"], "prompt[1]"),
        ("prompt", [[1], 2], "prompt[1]"),
        ("prompt", [-1], "prompt[0]"),
        ("prompt", [[1, -1]], "prompt[0][1]"),
        ("prompt", [1.5], "prompt[0]"),
        ("prompt", [True], "prompt[0]"),
        ("prompt", ["a"] * 129, "prompt"),
        ("prompt", [[1]] * 129, "prompt"),
        ("prompt", [[[1]]], "prompt[0][0]"),
        ("n", 0, "n"),
        ("n", 129, "n"),
        ("best_of", 0, "best_of"),
        ("max_tokens", -2, "max_tokens"),
        ("max_tokens", 0, "max_tokens"),
        ("temperature", -1, "temperature"),
        ("top_p", -0.5, "top_p"),
        ("logprobs", 21, "logprobs"),
        ("logprobs", -1, "logprobs"),
        ("logit_bias", {"one": 1}, "logit_bias"),
        ("seed", 2**63, "seed"),
        ("stop", [""], "stop[0]"),
    ],
)
def test_invalid_completion_values_are_refused(path: str, value: object, param: str) -> None:
    assert refusal("completions", with_value(COMPLETION, path, value)).param == param


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        ("messages[0].role", "developer", "messages[0].role"),
        ("messages[0].content[0].type", "tool_use", "messages[0].content[0].type"),
        ("messages[0].content[0].source.data", "%%%", "messages[0].content[0].source.data"),
        (
            "messages[0].content[0].source.media_type",
            "text/plain",
            "messages[0].content[0].source.media_type",
        ),
        ("messages[2].content[0].tool_use_id", "t9", "messages[2].content[0].tool_use_id"),
        ("stop_sequences", [""], "stop_sequences[0]"),
        ("stop_sequences", ["a"] * 17, "stop_sequences"),
        ("tools", [], "tool_choice"),
        ("tools", MESSAGES["tools"] * 2, "tools[1].name"),  # type: ignore[operator]
        ("tools", [{"input_schema": {}}], "tools[0].name"),
        ("tool_choice.type", "sometimes", "tool_choice.type"),
        ("tool_choice.name", "g", "tool_choice.name"),
        ("thinking.type", "deep", "thinking.type"),
        ("thinking.budget_tokens", 0, "thinking.budget_tokens"),
        ("thinking.display", "loud", "thinking.display"),
        ("output_config.effort", "warp", "output_config.effort"),
    ],
)
def test_invalid_messages_values_are_refused(path: str, value: object, param: str) -> None:
    assert refusal("messages", with_value(MESSAGES, path, value)).param == param


@pytest.mark.parametrize(
    ("path", "value", "param"),
    [
        ("typical_p", -0.5, "typical_p"),
        ("typical_p", 1.1, "typical_p"),
        ("xtc_probability", -0.1, "xtc_probability"),
        ("xtc_threshold", 0, "xtc_threshold"),
        ("xtc_threshold", 0.6, "xtc_threshold"),
        ("dry_multiplier", -1, "dry_multiplier"),
        ("dry_base", 0.5, "dry_base"),
        ("dry_allowed_length", 0, "dry_allowed_length"),
        ("dry_penalty_last_n", -2, "dry_penalty_last_n"),
        ("dry_penalty_last_n", 10**6, "dry_penalty_last_n"),
        ("dry_sequence_breakers", [""], "dry_sequence_breakers[0]"),
        ("dry_sequence_breakers", ["a"] * 33, "dry_sequence_breakers"),
        ("dry_sequence_breakers", ["a" * 41], "dry_sequence_breakers[0]"),
        ("min_tokens", -1, "min_tokens"),
        ("hlg.width", 0, "hlg.width"),
        ("hlg.toe", 10**6, "hlg.toe"),
        ("structured_outputs.choice", [], "structured_outputs.choice"),
        ("structured_outputs.choice", [""], "structured_outputs.choice[0]"),
        ("structured_outputs.choice", ["a"] * 1025, "structured_outputs.choice"),
        ("structured_outputs.regex", "", "structured_outputs.regex"),
        ("structured_outputs.regex", "a", "structured_outputs.choice"),
        ("structured_outputs.json", "{", "structured_outputs.json"),
        ("structured_outputs.json", "[]", "structured_outputs.json"),
        ("structured_outputs.json", NESTED, "structured_outputs.json"),
        ("structured_outputs.structural_tag", {}, "structured_outputs.structural_tag"),
        ("guided_json", {}, "structured_outputs.choice"),
        ("guided_choice", ["b"], "structured_outputs.choice"),
        ("grammar", "", "grammar"),
        ("grammar", "root ::= a", "structured_outputs.choice"),
    ],
)
@pytest.mark.parametrize("protocol", ["chat", "completions", "responses"])
def test_invalid_structured_output_and_sampling_are_refused(
    protocol: str, path: str, value: object, param: str
) -> None:
    assert refusal(protocol, with_value(CASES[protocol][1], path, value)).param == param


@pytest.mark.parametrize(
    ("protocol", "path", "value", "param"),
    [
        ("chat", "response_format.type", "yaml", "response_format.type"),
        ("chat", "response_format", {"type": "json_schema"}, "response_format.json_schema"),
        (
            "chat",
            "response_format",
            {"type": "json_schema", "json_schema": {"schema": 5}},
            "response_format.json_schema.schema",
        ),
        (
            "chat",
            "response_format",
            {"type": "json_schema", "json_schema": {"schema": NESTED}},
            "response_format.json_schema.schema",
        ),
        ("chat", "response_format", {"type": "json_object", "schema": []}, "response_format.schema"),
        ("chat", "response_format", {"type": "grammar"}, "response_format.grammar"),
        ("chat", "response_format", {"type": "json_object"}, "structured_outputs.choice"),
        ("chat", "thinking_budget", -1, "thinking_budget"),
        ("responses", "text.format", {"type": "yaml"}, "text.format.type"),
        ("responses", "text.format", {"type": "json_schema", "schema": 5}, "text.format.schema"),
        ("responses", "text.format", {"type": "json_schema", "schema": NESTED}, "text.format.schema"),
        ("responses", "text.format", {"type": "json_object"}, "structured_outputs.choice"),
        ("messages", "output_config.format", {"type": "yaml", "schema": {}}, "output_config.format.type"),
        ("messages", "output_config.format", {"type": "json_schema"}, "output_config.format.schema"),
        ("messages", "output_config.format.schema", NESTED, "output_config.format.schema"),
        ("messages", "output_format", {"type": "json_schema", "schema": {}}, "output_format"),
    ],
)
def test_invalid_protocol_specific_formats_are_refused(
    protocol: str, path: str, value: object, param: str
) -> None:
    assert refusal(protocol, with_value(CASES[protocol][1], path, value)).param == param


@pytest.mark.parametrize(
    ("protocol", "path"),
    [
        ("chat", "model"),
        ("chat", "messages"),
        ("responses", "model"),
        ("responses", "input"),
        ("completions", "model"),
        ("completions", "prompt"),
        ("messages", "model"),
        ("messages", "messages"),
        ("messages", "max_tokens"),
        ("count_tokens", "model"),
        ("count_tokens", "messages"),
        ("agents", "model"),
        ("agent turns", "messages"),
        ("embeddings", "model"),
        ("embeddings", "input"),
    ],
)
def test_missing_field_is_named(protocol: str, path: str) -> None:
    error = refusal(protocol, {key: value for key, value in CASES[protocol][1].items() if key != path})
    assert (error.param, error.code) == (path, "missing_required_parameter")


@pytest.mark.parametrize(
    ("protocol", "path", "value", "param"),
    [
        ("agents", "id", "not/an id", "id"),
        ("agents", "id", "a" * 65, "id"),
        ("agents", "model", "", "model"),
        ("agents", "context_overflow", "shrug", "context_overflow"),
        ("agents", "metadata", {str(key): "x" for key in range(17)}, "metadata"),
        ("agents", "metadata.a", "x" * 513, "metadata"),
        ("agents", "tools", CHAT["tools"] * 2, "tools[1].function.name"),  # type: ignore[operator]
        ("agents", "tools", CHAT["tools"] * 513, "tools"),  # type: ignore[operator]
        ("agent changes", "model", None, "model"),
        ("agent changes", "context_overflow", "shrug", "context_overflow"),
        ("agent changes", "instruction", "x", "instruction"),
        ("agent turns", "messages", [], "messages"),
        ("agent turns", "n", 2, "n"),
        ("agent turns", "context_overflow", "shrug", "context_overflow"),
        ("agent turns", "messages[3].tool_call_id", "c9", "messages[3].tool_call_id"),
        ("agent turns", "tool_choice.function.name", "g", "tool_choice.function.name"),
        ("agent turns", "max_tokens", 0, "max_tokens"),
        ("embeddings", "input", [], "input"),
        ("embeddings", "input", ["a"] * 2049, "input"),
        ("embeddings", "input", [-1], "input[0]"),
        ("embeddings", "dimensions", 0, "dimensions"),
        ("embeddings", "dimensions", -5, "dimensions"),
        ("embeddings", "encoding_format", "hex", "encoding_format"),
    ],
)
def test_invalid_agents_and_embeddings_are_refused(
    protocol: str, path: str, value: object, param: str
) -> None:
    assert refusal(protocol, with_value(CASES[protocol][1], path, value)).param == param


@pytest.mark.parametrize(
    ("protocol", "path", "value"),
    [
        ("chat", "seed", 10**30),
        ("chat", "temperature", 10**400),
        ("completions", "n", 10**30),
        ("responses", "top_logprobs", 10**30),
        ("messages", "temperature", 10**400),
    ],
)
def test_huge_number_is_refused_with_its_path(protocol: str, path: str, value: object) -> None:
    assert (refusal(protocol, with_value(CASES[protocol][1], path, value)).param or "").startswith(path)


@pytest.mark.parametrize("protocol", ["chat", "messages", "completions"])
def test_huge_token_limit_is_accepted(protocol: str) -> None:
    create, body, _, _ = CASES[protocol]
    assert create()(json.dumps({**body, "max_tokens": 10**30}).encode()).max_tokens == 10**30


@pytest.mark.parametrize(
    ("protocol", "path"),
    [
        ("chat", "chat_template_kwargs"),
        ("chat", "tools[0].function.parameters"),
        ("messages", "tools[0].input_schema"),
        ("messages", "messages[1].content[1].input"),
        ("count_tokens", "tools[0].input_schema"),
        ("responses", "input[0]"),
        ("responses", "tools[0].parameters"),
        ("responses", "tools[1].tools[0].parameters"),
        ("agents", "tools[0].function.parameters"),
    ],
)
def test_deeply_nested_json_is_refused(protocol: str, path: str) -> None:
    deep: object = {}
    for _ in range(200):
        deep = {"a": [deep]}
    value = RESPONSES["input"][0] | {"unknown": deep} if path == "input[0]" else deep  # type: ignore[index]
    error = refusal(protocol, with_value(CASES[protocol][1], path, value))
    assert error.param == path
    assert "nested" in str(error)


def test_error_lists_the_supported_values() -> None:
    assert (
        "'audio_url', 'file', 'image_url', 'input_audio', 'input_video', 'text', 'video', 'video_url'"
        in str(refusal("chat", with_value(CHAT, "messages[1].content[0].type", "movie")))
    )
    assert "use one of: 'document', 'image', 'search_result', 'text', 'tool_result', 'video'" in str(
        refusal("messages", with_value(MESSAGES, "messages[0].content[0].type", "container_upload"))
    )
    assert "use one of: 'auto', 'none', 'required'" in str(
        refusal("chat", with_value(CHAT, "tool_choice", "never"))
    )


JSON_VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=5,
)


def says_something(asked: Any) -> bool:
    """Whether the request has a conversation, a prompt, or another input."""
    return (
        bool(asked.messages or asked.prompts) if isinstance(asked, GenerationRequest) else bool(asked.model)
    )


@given(st.data())
@pytest.mark.parametrize("protocol", CASES)
def test_any_value_at_any_path_is_accepted_or_refused(protocol: str, data: st.DataObject) -> None:
    create, body, kinds, _ = CASES[protocol]
    changed = with_value(body, data.draw(st.sampled_from(sorted(kinds))), data.draw(JSON_VALUES))
    with suppress(InvalidRequest):
        asked = create()(json.dumps(changed).encode())
        assert says_something(asked)


@given(st.integers(0, 3000), st.binary(max_size=3))
@pytest.mark.parametrize("protocol", CASES)
def test_any_corrupted_body_is_accepted_or_refused(protocol: str, place: int, damage: bytes) -> None:
    create, body, _, _ = CASES[protocol]
    text = json.dumps(body).encode()
    place %= len(text)
    with suppress(InvalidRequest):
        asked = create()(text[:place] + damage + text[place + len(damage) :])
        assert says_something(asked)
