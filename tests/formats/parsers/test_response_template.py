"""Parsers that a model's `response_template` describes, beside Transformers' own."""

import json
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from transformers.utils.chat_parsing import parse_response

from mlxctl.formats.parsers import AnswerMachine, extract, read_response_template
from mlxctl.formats.parsers.response_template.linear_pattern import LinearPattern, Scanner
from mlxctl.ir import Finished, Message, ToolSpec, Usage, collect

CALL = {"type": "function", "function": {"name": "{name}", "arguments": "{content}"}}
TOOL = ToolSpec(
    name="get_weather",
    description="",
    parameters={
        "type": "object",
        "properties": {"city": {"type": "string"}, "days": {"type": "integer"}, "tags": {"type": "array"}},
    },
)
# Templates as models have them, and a text of each with all regions.
TEMPLATES: dict[str, dict[str, Any]] = {
    "json": {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "thinking": {"open": "<think>", "close": "</think>"},
            "tool_calls": {
                "open": "<tool_call>",
                "close": "</tool_call>",
                "repeats": True,
                "content": "json",
                "transform": {"type": "function", "function": "{content}"},
            },
            "content": {"close": "<|im_end|>"},
        },
    },
    "tags": {
        "start_anchor": "<|im_start|>assistant\n",
        "fields": {
            "reasoning_content": {"open": "<think>", "close_pattern": r"\s*</think>\s*"},
            "tool_calls": {
                "open_pattern": r"\s*<tool_call>\s*<function=(?P<name>[^>\n]+)>",
                "close_pattern": r"</function>\s*</tool_call>",
                "repeats": True,
                "content": "xml-inline",
                "content_args": {
                    "tag_pattern": r"<parameter=(?P<key>[^>\n]+)>\s*(?P<value>.*?)\s*</parameter>"
                },
                "transform": CALL,
            },
            "content": {"close_pattern": r"\s*(?:<\|im_end\|>|<\|endoftext\|>)"},
        },
    },
    "braces": {
        "start_anchor": ["<|turn>model\n", "<tool_response|>"],
        "fields": {
            "thinking": {"open": "<|channel>thought\n", "close": "<channel|>"},
            "tool_calls": {
                "open_pattern": r"<\|tool_call>call:(?P<name>\w+)",
                "close": "<tool_call|>",
                "repeats": True,
                "content": "json",
                "content_args": {"unquoted_keys": True, "string_delims": [['<|"|>', '<|"|>']]},
                "transform": CALL,
            },
            "content": {"close": ["<turn|>", "<eos>"]},
        },
    },
    "list": {
        "start_anchor": "<|CHATBOT_TOKEN|>",
        "fields": {
            "thinking": {"open": "<|START_THINKING|>", "close": "<|END_THINKING|>"},
            "tool_calls": {
                "open": "<|START_ACTION|>",
                "close": "<|END_ACTION|>",
                "content": "json",
                "transform": {
                    "type": "function",
                    "function": {"name": "{tool_name}", "arguments": "{parameters}"},
                },
                "transform_each": True,
            },
            "content": {"open": "<|START_RESPONSE|>", "close": "<|END_RESPONSE|>"},
        },
    },
}
DAYS = {"city": 'Bern "a" ü', "days": 3}
CALLS = {
    "json": f'<tool_call>\n{{"name": "get_weather", "arguments": {json.dumps(DAYS)}}}\n</tool_call>',
    "tags": (
        '<tool_call>\n<function=get_weather>\n<parameter=city>\nBern "a" ü\n</parameter>\n'
        "<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>"
    ),
    "braces": '<|tool_call>call:get_weather{city:<|"|>Bern "a" ü<|"|>,days:3}<tool_call|>',
    "list": (
        "<|START_ACTION|>"
        + json.dumps([{"tool_call_id": "0", "tool_name": "get_weather", "parameters": DAYS}])
        + "<|END_ACTION|>"
    ),
}
THOUGHTS = {
    "json": "<think>\n{}\n</think>\n\n",
    "tags": "<think>\n{}\n</think>\n\n",
    "braces": "<|channel>thought\n{}<channel|>",
    "list": "<|START_THINKING|>{}<|END_THINKING|>",
}
ANSWERS = {"list": "<|START_RESPONSE|>{}<|END_RESPONSE|>"}
WORDS = st.text(st.sampled_from('ab {}"<>|/\n\\'), max_size=12).map(str.strip)


def read(name: str, text: str) -> Message:
    parsers = read_response_template({"response_template": TEMPLATES[name]})
    return extract(text, tools=parsers.tools, thinking=parsers.thinking, tool_specs=[TOOL])


def theirs(name: str, text: str) -> dict[str, Any]:
    function = {"name": TOOL.name, "parameters": TOOL.parameters}
    tools = [{"type": "function", "function": function}]
    return dict(parse_response(text, TEMPLATES[name], prefix="", tools=tools))


@settings(max_examples=60)
@given(name=st.sampled_from(sorted(TEMPLATES)), thought=WORDS, words=WORDS, num_calls=st.integers(0, 2))
def test_answers_are_read_as_by_transformers(name: str, thought: str, words: str, num_calls: int) -> None:
    # Of an action list there is one, with all calls.
    num_calls = min(num_calls, 1) if name == "list" else num_calls
    spoken = (THOUGHTS[name].format(thought) if thought else "") + ANSWERS.get(name, "{}").format(words)
    # Transformers replaces the text before by white space between calls.
    text = spoken + CALLS[name] * num_calls
    ours, expected = read(name, text), theirs(name, text)
    calls = expected.get("tool_calls", [])
    assert [(call.name, json.loads(call.arguments)) for call in ours.tool_calls] == [
        (call["function"]["name"], call["function"]["arguments"]) for call in calls
    ]
    assert ours.thinking.strip() == (expected.get("thinking") or expected.get("reasoning_content") or "")
    assert ours.text.strip() == expected.get("content", "")
    assert len(calls) == num_calls


PIECES = [
    "a", " ", "\n", "<", "</", "<tool_call>", "</tool_call>", "<function=f>", "</function>", "<think>",
    "</think>", "<parameter=x>", "</parameter>", '{"name": "f", "arguments": {}}', "<|tool_call>call:f", "{",
    "}", "<tool_call|>", "<|START_ACTION|>", "[]", "<|END_ACTION|>", '<|"|>', "<|im_end|>",
]  # fmt: skip


@settings(max_examples=60)
@given(
    name=st.sampled_from(sorted(TEMPLATES)),
    pieces=st.lists(st.sampled_from(PIECES), max_size=10),
    size=st.integers(1, 7),
)
def test_any_text_is_read_the_same_in_any_chunks(name: str, pieces: list[str], size: int) -> None:
    text = "".join(pieces)
    parsers = read_response_template({"response_template": TEMPLATES[name]})
    machine = AnswerMachine(tools=parsers.tools, thinking=parsers.thinking, tool_specs=[TOOL])
    events = [event for at in range(0, len(text), size) for event in machine.feed(text[at : at + size])]
    events += [*machine.finish(), Finished(reason="stop", usage=Usage(num_prompt_tokens=0))]
    chunked, whole = collect(events).message, read(name, text)
    assert (chunked.text, chunked.thinking) == (whole.text, whole.thinking)
    assert [(call.name, call.arguments) for call in chunked.tool_calls] == [
        (call.name, call.arguments) for call in whole.tool_calls
    ]


def test_beginning_of_a_call_is_held_back() -> None:
    parsers = read_response_template({"response_template": TEMPLATES["tags"]})
    machine = AnswerMachine(tools=parsers.tools, thinking=parsers.thinking, tool_specs=[TOOL])
    shown = machine.feed("Look.<tool_") + machine.feed("call>\n<function=get_wea")
    assert [getattr(event, "text", None) for event in shown] == ["Look."]


BOMBS = {
    "look-ahead": "<a>(?=b)c",
    "back-reference": r"<a>(b)\1",
    "nested repeats": "<a>((b{90}){90}){90}",
    "long": "<a>" + "b?" * 400,
    "deep": "<a>" + "(" * 60 + "b" + ")" * 60,
    "empty": r"\s*",
    "without text": r"\w+",
    "open group": "<a>(b",
    "open class": "<a>[b",
}


@pytest.mark.parametrize("pattern", BOMBS.values(), ids=list(BOMBS))
def test_pattern_beyond_the_subset_is_refused_in_a_line(pattern: str) -> None:
    fields = {"tool_calls": {"open_pattern": pattern, "close": "</a>", "content": "json"}}
    with pytest.raises(ValueError, match=r"not supported|characters|no fixed text") as refused:
        read_response_template({"response_template": {"start_anchor": "x", "fields": fields}})
    assert "\n" not in str(refused.value)
    assert len(str(refused.value)) < 800


@pytest.mark.parametrize(
    "template",
    [
        [],
        {"fields": {}},
        {"fields": {"content": 1}},
        {"version": 2, "fields": {"content": {}}},
        {"fields": {"content": {"opens": "x"}}},
        {"fields": {"tool_calls": {"open": ["<a>"] * 40}}},
        {"fields": {"tool_calls": {"open": "<a>", "content": "yaml"}}},
        {"fields": {"tool_calls": {"open": "<a>", "transform": {"function": "{nothing}"}}}},
        {"fields": {"tool_calls": {"open": "<a>", "transform": "name: {content}"}}},
        {"fields": {"tool_calls": {"open": "<a>", "content": "xml-inline"}}},
        {"fields": {"thinking": {"open": "<a>"}}},
        {"fields": {str(number): {} for number in range(99)}},
    ],
)
def test_malformed_template_is_refused(template: Any) -> None:
    with pytest.raises(ValueError) as refused:
        read_response_template({"response_template": template})
    assert len(str(refused.value).splitlines()) == 1


@pytest.mark.parametrize("pattern", ["<a>(b+)+c", "<a>(b|b)*c", "<a>(.*b){9}c", "<a>(?:b*)*(?:b*)*c"])
def test_pattern_that_would_backtrack_takes_linear_time(pattern: str) -> None:
    def steps(length: int) -> float:
        scanner, begun = Scanner(LinearPattern(pattern)), time.process_time()
        scanner.feed("<a>" + "b" * length)
        assert scanner.finish() is None
        return time.process_time() - begun

    # Backtracking would take 2^500 steps; this ends at all.
    assert steps(500) < 30
