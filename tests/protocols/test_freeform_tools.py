"""OpenAI's custom tools in chat completions and responses."""

import json
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir import (
    Finished,
    StreamEvent,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallPart,
    ToolCallStarted,
    ToolChoice,
    collect,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols import PROTOCOLS
from mlxctl.protocols.openai.freeform import FreeformInput, freeform_arguments

from .scripts import CHAT_BODY, RESPONSES_BODY, USAGE, chat, data_of, encoder_of, responses, stream

REGEX = {"definition": "[a-c]+", "syntax": "regex"}
LARK = {"definition": 'start: "+" /[a-z]+/', "syntax": "lark"}
PATCH: dict[str, Any] = {"type": "custom", "name": "patch", "description": "Change files"}
CHAT_PATCH: dict[str, Any] = {"type": "custom", "custom": {"name": "patch", "description": "Change files"}}
TEXTS = st.text(alphabet='ab "\\/{}:\n\t\x00é☀🦊', max_size=12)


def called(arguments: str, *, cuts: Sequence[int] = (), name: str = "patch") -> list[StreamEvent]:
    edges = [0, *sorted(cut % (len(arguments) + 1) for cut in cuts), len(arguments)]
    deltas = [ToolArgumentsDelta(index=0, json=arguments[start:end]) for start, end in pairwise(edges)]
    ended = Finished(reason="tool_calls", usage=USAGE)
    return [ToolCallStarted(index=0, id="call_1", name=name), *deltas, ToolCallEnded(index=0), ended]


@given(text=TEXTS, is_ascii=st.booleans(), cuts=st.lists(st.integers(0, 99), max_size=6))
def test_input_is_independent_of_json_spelling_and_chunks(text: str, is_ascii: bool, cuts: list[int]) -> None:
    events = called(json.dumps({"input": text}, ensure_ascii=is_ascii), cuts=cuts)
    done = [
        event
        for event in data_of(stream(responses(tools=[PATCH]), events))
        if event["type"].startswith("response.custom")
    ]
    assert done[-1]["input"] == "".join(event["delta"] for event in done[:-1]) == text
    whole = json.loads(responses(tools=[PATCH]).whole(collect(events)))["output"][0]
    assert (whole["type"], whole["name"], whole["input"]) == ("custom_tool_call", "patch", text)
    deltas = [chunk["choices"][0]["delta"] for chunk in data_of(stream(chat(tools=[CHAT_PATCH]), events))]
    assert (
        "".join(call["custom"]["input"] for delta in deltas for call in delta.get("tool_calls", ())) == text
    )
    (call,) = json.loads(chat(tools=[CHAT_PATCH]).whole(collect(events)))["choices"][0]["message"][
        "tool_calls"
    ]
    assert call == {"id": "call_1", "type": "custom", "custom": {"name": "patch", "input": text}}


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        ('{ "input" :\n"a\nb" }', "a\nb"),
        ('{"why": 1, "input": "a"}', "a"),
        ('{"patch": "a"}', '{"patch": "a"}'),
        ("*** Begin", "*** Begin"),
        ('{"input": 5}', '{"input": 5}'),
        ('{"input": "cut o', "cut o"),
        ('{"input": "cut \\u26', "cut "),
        ('{"input": "\\ud83e!"}', "\ufffd!"),
        ('{"input": "\\udd8a"}', "\ufffd"),
        ('{"input": "\\x"}', "\\x"),
        ('{"input":"C:\\users\\foo bar"}', "C:\\users\foo bar"),
        ('{"input":"C:\\dir\\nnew"}', "C:\\dir\nnew"),
        ("", ""),
    ],
)
def test_arguments_of_another_shape_become_the_input(arguments: str, text: str) -> None:
    assert FreeformInput.of(arguments) == text
    reader = FreeformInput()
    assert "".join(map(reader.feed, arguments)) + reader.finish() == text


def test_custom_tool_is_offered_as_function_of_one_string() -> None:
    asked = PROTOCOLS["chat"].parse_alone(json.dumps(CHAT_BODY | {"tools": [CHAT_PATCH]}).encode())
    same = PROTOCOLS["responses"].parse_alone(json.dumps(RESPONSES_BODY | {"tools": [PATCH]}).encode())
    (tool,) = asked.tools
    assert (tool,) == same.tools
    assert (tool.name, tool.description, tool.is_strict) == ("patch", "Change files", False)
    assert tool.parameters["properties"] == {"input": {"type": "string"}}


def test_regex_is_enforced_and_lark_grammar_is_described() -> None:
    chat_tool = {
        "type": "custom",
        "custom": {"name": "patch", "format": {"type": "grammar", "grammar": REGEX}},
    }
    (held,) = PROTOCOLS["chat"].parse_alone(json.dumps(CHAT_BODY | {"tools": [chat_tool]}).encode()).tools
    assert held.is_strict
    assert held.parameters["properties"]["input"]["pattern"] == "^(?:[a-c]+)$"
    assert held.param == "tools[0].custom.format.grammar.definition"
    tool = PATCH | {"format": {"type": "grammar", **LARK}}
    (spec,) = (
        PROTOCOLS["responses"].parse_alone(json.dumps(RESPONSES_BODY | {"tools": [tool]}).encode()).tools
    )
    assert not spec.is_strict
    assert spec.description.startswith("Change files")
    assert spec.description.endswith(LARK["definition"])


def test_custom_calls_and_results_are_replayed() -> None:
    items = [
        {"role": "user", "content": "Go"},
        {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": 'a "b"'},
        {"type": "custom_tool_call_output", "call_id": "c1", "output": "done"},
    ]
    from_items = (
        PROTOCOLS["responses"].parse_alone(json.dumps({"model": "tiny", "input": items}).encode()).messages
    )
    replayed = {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": 'a "b"'}}
    chatted = [
        {"role": "user", "content": "Go"},
        {"role": "assistant", "tool_calls": [replayed]},
        {"role": "tool", "tool_call_id": "c1", "content": "done"},
    ]
    assert (
        PROTOCOLS["chat"].parse_alone(json.dumps({"model": "tiny", "messages": chatted}).encode()).messages
        == from_items
    )
    assert from_items[1].tool_calls == (
        ToolCallPart(id="c1", name="patch", arguments=freeform_arguments('a "b"')),
    )
    encoder = responses(input=items)
    encoder.whole(collect(called("{}")))
    assert encoder.record is not None
    assert [item.id.split("_")[0] for item in encoder.record.input] == ["msg", "ctc", "ctco"]


def test_custom_tool_can_be_chosen_by_name() -> None:
    choice: dict[str, Any] = {"type": "custom", "custom": {"name": "patch"}}
    asked = PROTOCOLS["chat"].parse_alone(
        json.dumps(CHAT_BODY | {"tools": [CHAT_PATCH], "tool_choice": choice}).encode()
    )
    assert asked.tool_choice == ToolChoice(mode="named", name="patch")
    allowed = {"type": "allowed_tools", "allowed_tools": {"mode": "required", "tools": [choice]}}
    asked = PROTOCOLS["chat"].parse_alone(
        json.dumps(CHAT_BODY | {"tools": [CHAT_PATCH], "tool_choice": allowed}).encode()
    )
    assert asked.tool_choice == ToolChoice(mode="required")
    body = RESPONSES_BODY | {"tools": [PATCH], "tool_choice": {"type": "custom", "name": "patch"}}
    asked = PROTOCOLS["responses"].parse_alone(json.dumps(body).encode())
    assert asked.tool_choice == ToolChoice(mode="named", name="patch")
    assert json.loads(encoder_of("responses", body).whole(collect(called("{}"))))["tool_choice"] == {
        "type": "custom",
        "name": "patch",
    }


def test_tools_may_be_offered_within_the_input() -> None:
    space = {"type": "namespace", "name": "files", "tools": [PATCH]}
    items = [
        {"type": "additional_tools", "role": "developer", "tools": [space]},
        {"role": "user", "content": "Go"},
    ]
    asked = PROTOCOLS["responses"].parse_alone(json.dumps({"model": "tiny", "input": items}).encode())
    assert [tool.name for tool in asked.tools] == ["files__patch"]
    assert [message.role for message in asked.messages] == ["user"]
    whole = responses(input=items).whole(collect(called('{"input": "x"}', name="files__patch")))
    (item,) = json.loads(whole)["output"]
    assert (item["type"], item["name"], item["namespace"], item["input"]) == (
        "custom_tool_call",
        "patch",
        "files",
        "x",
    )
    items[0]["tools"] = [{"type": "custom"}]
    with pytest.raises(InvalidRequest) as refused:
        PROTOCOLS["responses"].parse_alone(json.dumps({"model": "tiny", "input": items}).encode())
    assert refused.value.param == "input[0].tools[0].name"
