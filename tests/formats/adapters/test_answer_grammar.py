"""Grammars of answers with constrained parts."""

import json
from dataclasses import replace
from functools import cache
from typing import Any

import pytest

from mlxctl.formats.adapters import create_adapter
from mlxctl.formats.adapters.prompt import Prompt
from mlxctl.formats.parsers import TOOL_PARSER_IDS, ToolParser, extract, thinking_parser, tool_parser
from mlxctl.ir import (
    Constraint,
    GenerationRequest,
    PythonNotation,
    SamplingOptions,
    TagNotation,
    ThinkingOptions,
    ToolChoice,
    ToolSpec,
    text_message,
)
from mlxctl.ir.errors import InvalidRequest
from mlxctl.library import read_model
from mlxctl.library.demo import MODEL_DIR
from tests.formats.adapters.answers import Answers

SCHEMA = {
    "type": "object",
    "properties": {"a": {"type": "integer"}},
    "required": ["a"],
    "additionalProperties": False,
}
TOOLS = (
    ToolSpec(name="first", parameters=SCHEMA),
    ToolSpec(name="second", parameters={"properties": {"b": {}}}),
)


def asked(**more: Any) -> GenerationRequest:
    return GenerationRequest(model="tiny", messages=(text_message("user", "Hi"),), **more)


@cache
def answers_of(parser_id: str, *, has_marks: bool = True) -> Answers:
    return Answers(tool_parser(parser_id), thinking_parser("null"), has_marks=has_marks)


def output_constraint(kind: Any = "json_schema", value: Any = SCHEMA) -> Constraint:
    return Constraint(kind=kind, value=value, param="response_format")


HERMES = Answers(tool_parser("hermes_json"), thinking_parser("think_tag"))
THINKS = Prompt(text="", may_think=True)
OPENED = Prompt(text="<think>\n", tail="<think>\n", may_think=True)


def test_answer_matches_its_constraint_only() -> None:
    request = asked(constraint=output_constraint())
    assert HERMES.allows('{"a": 1}', request)
    assert not any(
        HERMES.allows(text, request)
        for text in ("", "Sure: {}", '{"a": "x"}', '{"a": 1} ok', '{"a": 1', '{"b": 1}')
    )


@pytest.mark.parametrize(
    ("kind", "value", "good", "bad"),
    [
        ("regex", "[0-9]{2}", "42", "420"),
        ("choice", ("red", "green"), "green", "blue"),
        ("grammar", 'start: "a"+ "b"', "aab", "aa"),
        ("grammar", 'root ::= ("x" | "y")+', "xyx", "xz"),
        ("json_object", {"type": "object"}, '{"any": [1, null]}', "[1]"),
    ],
)
def test_every_kind_of_constraint_is_enforced(kind: str, value: Any, good: str, bad: str) -> None:
    request = asked(constraint=output_constraint(kind, value))
    assert HERMES.allows(good, request)
    assert not HERMES.allows(bad, request)


def test_unconstrained_thought_precedes_the_output() -> None:
    request = asked(constraint=output_constraint())
    thought = '<think>\nIs {"a": "x"} right? No <b>.\n</think>\n\n'
    assert HERMES.allows(thought + '{"a": 1}', request, THINKS)
    assert HERMES.allows('{"a": 1}', request, THINKS)
    assert HERMES.allows('Well.\n</think>\n\n{"a": 1}', request, OPENED)
    assert not HERMES.allows(thought + "Sure.", request, THINKS)
    assert not HERMES.allows('{"a": 1}', request, OPENED)
    assert not HERMES.allows(thought + '{"a": 1}', request)


@pytest.mark.parametrize(
    "parser_id",
    ["think_tag", "mistral_think", "seed_think", "cohere_think", "gemma4_channel", "harmony_analysis"],
)
def test_thought_and_output_are_separated_in_every_format(parser_id: str) -> None:
    thinking = thinking_parser(parser_id)
    answers = Answers(tool_parser("null"), thinking)
    wrapper = next((text for text in thinking.wrappers if "final" in text), "")
    start = "<|start|>assistant" if parser_id == "harmony_analysis" else ""
    thought = f"{thinking.opener}Hm, 42?{thinking.closer}{start}{wrapper}"
    request = asked(constraint=output_constraint("regex", "[0-9]{2}"))
    assert answers.allows(f"{thought}42", request, THINKS)
    assert not answers.allows(f"{thought}no", request, THINKS)


def test_thought_closer_that_is_no_token_ends_at_its_text() -> None:
    marks = replace(thinking_parser("think_tag"), opener="(thinking)", closer="(done)")
    answers = Answers(tool_parser("null"), marks)
    request = asked(constraint=output_constraint("choice", ("yes", "no")))
    assert answers.allows("(thinking)well, (don't)(done)\nyes", request, THINKS)
    assert not answers.allows("(thinking)well(done)maybe", request, THINKS)


CALLS = {
    "hermes_json": '{"name": "first", "arguments": {"a": 1}}\n</tool_call>',
    "qwen3_coder": "first>\n<parameter=a>\n1\n</parameter>\n</function>\n</tool_call>",
    "glm4_native": "first<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>",
    "glm4_xml": 'first</name><arguments>{"a": 1}</arguments></tool_call>',
    "llama_xml": 'first>{"a": 1}</function>',
    "llama_python": 'first", "parameters": {"a": 1}}',
    "liquid_python": "first(a=1)]<|tool_call_end|>",
    "mistral": 'first[ARGS]{"a": 1}',
    "harmony": 'first <|constrain|>json<|message|>{"a": 1}<|call|>',
    "gemma4": "first{a:1}<tool_call|>",
    "function_gemma": "first{a:1}<end_function_call>",
    "gemma": "first(a=1)\n```",
    "kimi_k2": 'first:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>',
    "minimax_m2": 'first">\n<parameter name="a">1</parameter>\n</invoke>\n</minimax:tool_call>',
    "deepseek": 'first<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    "granite": '[{"name": "first", "arguments": {"a": 1}}]',
    "phi4": '[{"name": "first", "arguments": {"a": 1}}]<|/tool_call|>',
    "command_r": (
        '[\n    {"tool_call_id": "0", "tool_name": "first", "parameters": {"a": 1}}\n]<|END_ACTION|>'
    ),
    "minicpm5": 'first"><param name="a">1</param></function>',
    "seed_oss": "first>\n<parameter=a>\n1\n</parameter>\n</function>\n</seed:tool_call>",
}


def _declared_call(parser: ToolParser) -> str:
    """Return what follows the forced prefix, as the format declares.

    For any call.
    """
    prefix = parser.forced_prefix("first") or ""
    closing = parser.closing_after(prefix)
    assert closing is not None, f"no entry of `closings` of {parser.id} fits its forced prefix {prefix!r}"
    match closing.notation:
        case TagNotation(begin=begin, end=end):
            arguments = (
                begin.replace("{name}", "a").replace("{type}", "number") + "1" + end.replace("{name}", "a")
            )
        case PythonNotation():
            arguments = "a=1"
        case _:
            arguments = '{"a": 1}'
    return prefix.removeprefix(parser.forced_prefix(None) or "") + arguments + closing.call_end


# Other formats are checked against their own declaration.
CALLS |= {
    parser_id: _declared_call(tool_parser(parser_id))
    for parser_id in sorted({*TOOL_PARSER_IDS} - {*CALLS, "null"})
}


@pytest.mark.parametrize("parser_id", CALLS)
def test_forced_call_has_known_name_and_valid_arguments_in_every_format(parser_id: str) -> None:
    parser, rest = tool_parser(parser_id), CALLS[parser_id]
    answers = answers_of(parser_id)
    request = asked(tools=TOOLS, tool_choice=ToolChoice(mode="required"), parallel_tool_calls=False)

    assert answers.allows(rest, request)
    assert not answers.allows(rest.replace("1", '"x"'), request)
    assert not answers.allows(rest.replace("first", "third"), request)
    assert not answers.allows(f"Well. {rest}", request)
    (call,) = extract((parser.forced_prefix(None) or "") + rest, tools=parser, tool_specs=TOOLS).tool_calls
    assert (call.name, json.loads(call.arguments)) == ("first", {"a": 1})


def test_named_call_continues_arguments_begun_in_the_prompt() -> None:
    request = asked(tools=TOOLS, tool_choice=ToolChoice(mode="named", name="first"))
    assert HERMES.allows('a": 1}}\n</tool_call>', request, start=' {"')
    assert not HERMES.allows('b": 1}}\n</tool_call>', request, start=' {"')


@pytest.mark.parametrize(
    ("parser_id", "more"),
    [
        ("hermes_json", '\n<tool_call>\n{"name": "second", "arguments": {"b": []}}\n</tool_call>'),
        (
            "qwen3_coder",
            "\n<tool_call>\n<function=second>\n<parameter=b>\n[]\n</parameter>\n</function>\n</tool_call>",
        ),
        ("gemma4", "<|tool_call>call:second{b:[]}<tool_call|>"),
    ],
)
def test_more_calls_follow_a_forced_one_only_in_parallel(parser_id: str, more: str) -> None:
    answers, first = answers_of(parser_id), CALLS[parser_id]
    required = ToolChoice(mode="required")
    assert answers.allows(first + more, asked(tools=TOOLS, tool_choice=required))
    assert answers.allows(first, asked(tools=TOOLS, tool_choice=required))
    assert not answers.allows(
        first + more, asked(tools=TOOLS, tool_choice=required, parallel_tool_calls=False)
    )


@pytest.mark.parametrize("parser_id", CALLS)
def test_with_tools_the_answer_is_structured_output_or_a_valid_call(parser_id: str) -> None:
    parser = tool_parser(parser_id)
    answers = answers_of(parser_id)
    request = asked(constraint=output_constraint("choice", ("yes", "no")), tools=TOOLS)
    call = (parser.forced_prefix(None) or "") + CALLS[parser_id]
    assert answers.allows("yes", request)
    assert answers.allows(call, request)
    assert not answers.allows(call.replace("1", "null"), request)
    assert not answers.allows("perhaps", request)


@pytest.mark.parametrize("has_marks", [True, False])
@pytest.mark.parametrize("parser_id", CALLS)
def test_strict_tool_calls_match_their_schema_in_free_text(parser_id: str, has_marks: bool) -> None:
    parser = tool_parser(parser_id)
    answers = answers_of(parser_id, has_marks=has_marks)
    strict = asked(tools=(replace(TOOLS[0], is_strict=True), TOOLS[1]))
    call = (parser.forced_prefix(None) or "") + CALLS[parser_id]
    preamble = "" if parser.bare_openers else "Let me <b>see</b>, 1 < 2.\n"
    assert answers.allows("Just text, <b>any</b>.", strict)
    assert answers.allows(preamble + call, strict)
    assert not answers.allows(preamble + call.replace("1", "null"), strict)
    assert not answers.allows(preamble + call.replace("first", "third"), strict)
    assert not answers.guides(asked(tools=TOOLS))


def test_strict_tool_calls_are_enforced_in_harmony_messages() -> None:
    answers = Answers(tool_parser("harmony"), thinking_parser("harmony_analysis"))
    strict = asked(tools=(replace(TOOLS[0], is_strict=True),))
    begun = Prompt(text="<|start|>assistant", tail="<|start|>assistant", may_think=True)
    thought = "<|channel|>analysis<|message|>Hm.<|end|><|start|>assistant"
    call = '<|channel|>commentary to=functions.first <|constrain|>json<|message|>{"a": 1}<|call|>'
    assert answers.allows(f"{thought}<|channel|>final<|message|>Just text.", strict, begun)
    assert answers.allows(
        f"{thought}<|channel|>commentary<|message|>I look.<|end|><|start|>assistant{call}", strict, begun
    )
    assert answers.allows(call, strict, begun)
    assert not answers.allows(thought + call.replace("1", "null"), strict, begun)
    for other in (
        " to=functions.first<|channel|>commentary<|message|>{}",
        "<|channel|>analysis to=functions.first<|message|>{}",
    ):
        assert not answers.allows(other, strict, begun)
        assert not answers.allows(thought + other, strict, begun)


def test_unenforceable_tool_schema_names_its_field() -> None:
    broken = ToolSpec(
        name="f", parameters={"properties": {"a": {"type": "no"}}}, param="tools[0].function.parameters"
    )
    with pytest.raises(InvalidRequest) as refused:
        HERMES.guides(asked(tools=(broken,), tool_choice=ToolChoice(mode="required")))
    assert refused.value.param == "tools[0].function.parameters.properties.a"


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        ("grammar", 'start: <no_such_token> "a"', "no_such_token"),
        ("grammar", 'start: <[99999]> "a"', "99999"),
        ("grammar", 'start: a\na: a "x"', "no text matches it"),
        ("json_schema", {"$ref": "#"}, "no text matches it"),
    ],
)
def test_constraint_that_no_token_matches_raises(kind: str, value: Any, what: str) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        HERMES.guides(asked(constraint=output_constraint(kind, value)))
    assert refused.value.param == "response_format"


@pytest.fixture(scope="module")
def demo() -> Any:
    return create_adapter(read_model(MODEL_DIR), name="demo")


def test_thinking_limit_uses_the_models_token_ids(demo: Any) -> None:
    limited = demo.prepare_input(asked(thinking=ThinkingOptions(enabled=True, max_tokens=5))).guidance
    assert limited is not None
    assert limited.thinking.max_tokens == 5
    assert demo.vocabulary.decode(limited.thinking.closer_ids) == "</think>"
    assert demo.vocabulary.decode(limited.thinking.closing_ids) == "\n</think>\n\n"
    for unlimited in (
        ThinkingOptions(enabled=False, max_tokens=5),
        ThinkingOptions(enabled=True, max_tokens=10**30),
    ):
        assert demo.prepare_input(asked(thinking=unlimited)).guidance is None
    assert demo.prepare_input(asked()).guidance is None


def test_min_tokens_with_structured_output_raises(demo: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        demo.prepare_input(asked(constraint=output_constraint(), sampling=SamplingOptions(min_tokens=5)))
    assert refused.value.param == "min_tokens"
