"""Calls of a forced call's grammar parse and match its schema."""

import json
import random
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mlxctl.formats.grammars.closed_objects import with_closed_objects
from mlxctl.formats.parsers import TOOL_PARSER_IDS, ToolParser, extract, thinking_parser, tool_parser
from mlxctl.ir import GenerationRequest, TagNotation, ToolChoice, ToolSpec, text_message
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.freeform import InputGrammar, freeform_spec
from tests.formats.adapters.answers import Answers
from tests.formats.parsers.replay import load_continued

FORMATS = [
    (parser_id, index)
    for parser_id in TOOL_PARSER_IDS
    if parser_id != "null"
    for index in range(1 + len(tool_parser(parser_id).dialects))
]
_DEFINITIONS = {
    "color": {"enum": ["red", "green"]},
    "node": {
        "type": "object",
        "properties": {"n": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}},
        "required": ["n"],
    },
}
_NAMES = st.sampled_from(["a", "ab", "city", "file_path", "5"])
_STRINGS = st.sampled_from([
    {"type": "string"},
    {"type": "string", "minLength": 2, "maxLength": 6},
    {"type": "string", "pattern": "^[a-c]{1,3}$"},
    {"type": "string", "pattern": "[0-9]"},
    {"type": "string", "enum": ["x", "5", "true", "it's", 'a "b" <c>']},
    {"type": "string", "format": "date"},
    {"const": "only\nthis"},
    {"$ref": "#/$defs/color"},
])  # fmt: skip
_PLAIN = st.sampled_from([
    {"type": "integer"},
    {"type": "integer", "minimum": 3, "maximum": 40},
    {"type": "number", "exclusiveMinimum": 0},
    {"type": "boolean"},
    {"type": "null"},
    {"enum": [1, "1", None, True, [1], {"a": "b"}]},
    {"type": ["string", "null"]},
    {"type": ["string", "integer"], "maxLength": 5, "minimum": 10},
    {"anyOf": [{"type": "boolean"}, {"type": "string", "minLength": 1},
               {"type": "array", "items": {"type": "string"}}]},
    {"allOf": [{"type": "integer", "minimum": 2}, {"maximum": 9}]},
    {"$ref": "#/$defs/node"},
    {},
])  # fmt: skip


def _objects(values: st.SearchStrategy[Any]) -> st.SearchStrategy[dict[str, Any]]:
    properties = st.dictionaries(st.sampled_from(["a", "ab", "city", "file_path"]), values, max_size=3)
    return st.builds(
        lambda named, required, rest: {
            "type": "object",
            "properties": named,
            "required": [name for name in named if name in required],
            **rest,
        },
        properties,
        st.sets(st.sampled_from(["a", "ab", "city"])),
        st.sampled_from([{}, {"additionalProperties": False}, {"additionalProperties": {"type": "string"}}]),
    )


_ARRAYS = st.sampled_from(
    [{}, {"minItems": 1, "maxItems": 2}, {"prefixItems": [{"type": "boolean"}, {"type": "string"}]}]
)
_VALUES = st.recursive(
    _STRINGS | _PLAIN,
    lambda inner: (
        _objects(inner)
        | st.builds(lambda item, limits: {"type": "array", "items": item, **limits}, inner, _ARRAYS)
    ),
    max_leaves=4,
)
SCHEMAS = _objects(_VALUES).map(lambda schema: {**schema, "$defs": _DEFINITIONS})


@cache
def parser_of(parser_id: str, index: int) -> ToolParser:
    parser = tool_parser(parser_id)
    return replace(parser, forced_prefix=(parser.forced_prefix, *parser.dialects)[index])


@cache
def answers_of(parser_id: str, index: int, has_marks: bool) -> Answers:
    return Answers(parser_of(parser_id, index), thinking_parser("null"), has_marks=has_marks)


def forced(parameters: Any, mode: Any, *, is_parallel: bool = False, **more: Any) -> GenerationRequest:
    tools = (
        ToolSpec(name="look_up", parameters=parameters, **more),
        ToolSpec(name="look", parameters={"type": "object"}),
    )
    choice = ToolChoice(mode=mode, name="look_up" if mode == "named" else None)
    return GenerationRequest(
        model="tiny",
        messages=(text_message("user", "Hi"),),
        tools=tools,
        tool_choice=choice,
        parallel_tool_calls=is_parallel,
    )


CONTINUED = load_continued()


@pytest.mark.parametrize(("parser_id", "index"), FORMATS)
def test_grammar_allows_a_call_as_models_write_it(parser_id: str, index: int) -> None:
    properties = {"text": {"type": "string"}, "count": {"type": "integer"}}
    request = GenerationRequest(
        model="tiny",
        messages=(text_message("user", "Hi"),),
        tools=(ToolSpec(name="f", parameters={"type": "object", "properties": properties}),),
        tool_choice=ToolChoice(mode="named", name="f"),
    )
    text = CONTINUED[parser_id][index]
    assert answers_of(parser_id, index, True).allows(text, request), (
        f"`closings` of {parser_id} do not lead from the forced prefix to the end of {text!r}, "
        f"which is `continued[{index}]` in its transcripts"
    )


def closers(parser: ToolParser) -> list[str]:
    closing = parser.closing_after(parser.forced_prefix("look_up") or "")
    assert closing is not None
    ends = (
        [closing.notation.end, "\n" + closing.notation.end]
        if isinstance(closing.notation, TagNotation)
        else []
    )
    again = f"{closing.call_end.removesuffix(closing.block[1])}{closing.call_separator}"
    return [
        "look_up",
        *ends,
        closing.call_end,
        "}" + closing.call_end,
        again,
        '"',
        "'",
        "}",
        "]",
        *sorted(parser.markers),
    ]


@pytest.mark.parametrize(("parser_id", "index"), FORMATS)
@settings(
    max_examples=5,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
@given(
    schema=SCHEMAS,
    seed=st.integers(0, 1 << 32),
    mode=st.sampled_from(["named", "required"]),
    is_parallel=st.booleans(),
    has_marks=st.booleans(),
)
def test_every_forced_call_of_the_grammar_parses_and_matches_its_schema(
    parser_id: str, index: int, schema: Any, seed: int, mode: str, is_parallel: bool, has_marks: bool
) -> None:
    parser = parser_of(parser_id, index)
    request = forced(schema, mode, is_parallel=is_parallel)
    text = answers_of(parser_id, index, has_marks).some(request, random.Random(seed), closers(parser))
    assume(text is not None)
    whole = (parser.forced_prefix(request.tool_choice.name) or "") + (text or "")
    message = extract(whole, tools=parser, tool_specs=request.tools)
    assert message.tool_calls, whole
    assert len(message.tool_calls) == 1 or (is_parallel and mode == "required"), whole
    for call in message.tool_calls:
        parameters = next(tool.parameters for tool in request.tools if tool.name == call.name)
        Draft202012Validator(parameters).validate(json.loads(call.arguments))
        Draft202012Validator(with_closed_objects(parameters)).validate(json.loads(call.arguments))


TWO_CALLS = {
    ("hermes_json", 0): (
        '<tool_call>\n{"name": "look_up", "arguments": {"a": 1}}\n</tool_call>\n'
        '<tool_call>\n{"name": "look", "arguments": {}}\n</tool_call>'
    ),
    ("mistral", 0): '[TOOL_CALLS]look_up[ARGS]{"a": 1}[TOOL_CALLS]look[ARGS]{}',
    ("mistral", 1): (
        '[TOOL_CALLS][{"name": "look_up", "arguments": {"a": 1}}, {"name": "look", "arguments": {}}]'
    ),
    ("mistral", 2): (
        '[TOOL_CALLS] [{"name": "look_up", "arguments": {"a": 1}}, {"name": "look", "arguments": {}}]'
    ),
    ("granite", 0): (
        '<|tool_call|>[{"name": "look_up", "arguments": {"a": 1}}, {"name": "look", "arguments": {}}]'
    ),
    ("phi4", 0): (
        '<|tool_call|>[{"name": "look_up", "arguments": {"a": 1}}, {"name": "look", "arguments": '
        '{}}]<|/tool_call|>'
    ),
    ("command_r", 0): (
        '<|START_ACTION|>[\n    {"tool_call_id": "0", "tool_name": "look_up", "parameters": {"a": 1}},\n'
        '    {"tool_call_id": "1", "tool_name": "look", "parameters": {}}\n]<|END_ACTION|>'
    ),
    ("kimi_k2", 0): (
        '<|tool_calls_section_begin|><|tool_call_begin|>functions.look_up:0'
        '<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>'
        "<|tool_call_begin|>functions.look:1<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
    ),
    ("deepseek", 0): (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>look_up<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜>'
        "<｜tool▁call▁begin｜>look<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    ("deepseek", 1): (
        '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>look_up\n'
        '```json\n{"a": 1}\n```<｜tool▁call▁end｜>\n'
        "<｜tool▁call▁begin｜>function<｜tool▁sep｜>look\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
    ),
    ("deepseek", 2): (
        '<｜DSML｜function_calls>\n<｜DSML｜invoke name="look_up">\n'
        '<｜DSML｜parameter name="a" string="false">1</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
        '<｜DSML｜invoke name="look">\n</｜DSML｜invoke>\n</｜DSML｜function_calls>'
    ),
    ("minimax_m2", 0): (
        '<minimax:tool_call>\n<invoke name="look_up">\n<parameter name="a">1</parameter>\n</invoke>\n'
        '<invoke name="look">\n</invoke>\n</minimax:tool_call>'
    ),
    ("liquid_python", 0): "<|tool_call_start|>[look_up(a=1), look()]<|tool_call_end|>",
    ("glm4_native", 0): (
        "<tool_call>look_up<arg_key>a</arg_key><arg_value>1</arg_value></tool_call>\n<tool_call>look</tool_call>"
    ),
    ("glm4_xml", 0): (
        '<tool_call><name>look_up</name><arguments>{"a": 1}</arguments></tool_call>\n'
        "<tool_call><name>look</name><arguments>{}</arguments></tool_call>"
    ),
    ("gemma", 0): "```tool_code\nlook_up(a=1)\nlook()\n```",
    ("llama_python", 0): '{"name": "look_up", "parameters": {"a": 1}}; {"name": "look", "parameters": {}}',
    ("llama_python", 2): "[look_up(a=1), look()]",
    ("llama_xml", 0): '<function=look_up>{"a": 1}</function><function=look>{}</function>',
    ("minicpm5", 0): (
        '<function name="look_up"><param name="a">1</param></function><function name="look"></function>'
    ),
}  # fmt: skip


@pytest.mark.parametrize(("parser_id", "index"), TWO_CALLS)
@pytest.mark.parametrize("has_marks", [True, False])
def test_parallel_calls_follow_the_format_unless_disabled(
    parser_id: str, index: int, has_marks: bool
) -> None:
    parser, answers = parser_of(parser_id, index), answers_of(parser_id, index, has_marks)
    schema = {
        "type": "object",
        "properties": {"a": {"type": "integer"}},
        "required": ["a"],
        "additionalProperties": False,
    }
    whole = TWO_CALLS[parser_id, index]
    rest = whole.removeprefix(parser.forced_prefix(None) or "")
    assert rest != whole
    assert answers.allows(rest, forced(schema, "required", is_parallel=True))
    assert not answers.allows(rest, forced(schema, "required", is_parallel=False))
    assert not answers.allows(rest.replace("1", "true", 1), forced(schema, "required", is_parallel=True))
    calls = extract(whole, tools=parser, tool_specs=forced(schema, "required").tools).tool_calls
    assert [(call.name, json.loads(call.arguments)) for call in calls] == [
        ("look_up", {"a": 1}),
        ("look", {}),
    ]


@pytest.mark.parametrize(("parser_id", "index"), TWO_CALLS)
def test_tool_without_a_schema_takes_an_empty_object(parser_id: str, index: int) -> None:
    parser, answers = parser_of(parser_id, index), answers_of(parser_id, index, True)
    rest = TWO_CALLS[parser_id, index].removeprefix(parser.forced_prefix(None) or "")
    request = forced({"properties": {"a": {}}}, "required", is_parallel=True)
    look_up, look = request.tools
    assert answers.allows(rest, replace(request, tools=(look_up, replace(look, parameters={}))))
    assert not answers.allows(rest, replace(request, tools=(replace(look_up, parameters={}), look)))


@pytest.mark.parametrize(
    ("parser_id", "begin", "end"),
    [
        ("hermes_json", '{"name": "patch", "arguments": {"input": "', '"}}\n</tool_call>'),
        ("qwen3_coder", "patch>\n<parameter=input>\n", "\n</parameter>\n</function>\n</tool_call>"),
    ],
)
@pytest.mark.parametrize(
    ("pattern", "good", "bad"), [("a|b+", "bb", "ab"), ("[a-z]+ = [0-9]+", "x = 12", "x=1")]
)
def test_text_tool_argument_matches_its_pattern(
    parser_id: str, begin: str, end: str, pattern: str, good: str, bad: str
) -> None:
    request, answers = takes_text(pattern), answers_of(parser_id, 0, True)
    assert answers.allows(begin + good + end, request)
    assert not answers.allows(begin + bad + end, request)
    with pytest.raises(InvalidRequest, match="regular expression") as refused:
        answers.guides(takes_text("("))
    assert refused.value.param == "tools[0].format.definition"


def takes_text(pattern: str) -> GenerationRequest:
    grammar = InputGrammar(definition=pattern, syntax="regex")
    spec = freeform_spec("patch", description=None, grammar=grammar, param="tools[0].format.definition")
    choice = ToolChoice(mode="required")
    messages = (text_message("user", "Hi"),)
    return GenerationRequest(
        model="tiny", messages=messages, tools=(spec,), tool_choice=choice, parallel_tool_calls=False
    )


def call_text(parser_id: str, parameters: Any, rest: str, **more: Any) -> bool:
    """Whether a named call may go on so."""
    return answers_of(parser_id, 0, True).allows(rest, forced(parameters, "named", **more))


@pytest.mark.parametrize(
    ("text", "is_allowed"),
    [
        ('say "hi"\n\n\tthere', True),
        ("<b>1 < 2</b> </parameter", True),
        ("", True),
        ("say '</parameter>' twice", True),
        ("x\n</parameter>\ny\n</function>\nz", True),
        ("x\n<parameter=b>\ny, <function=", True),
        ("x</parameter>\n<b>", False),
        ("x\n</function>\n</tool_call>\ny", False),
        ("x\n<parameter=next>\ny", False),
        ("<function=f>\n</function>", False),
    ],
)
def test_tagged_string_contains_anything_but_what_may_end_it(text: str, is_allowed: bool) -> None:
    schema = {"properties": {"a": {"type": "string"}, "next": {"type": "string"}}, "required": ["a", "next"]}
    values = {"a": text, "next": text}
    written = "".join(f"<parameter={name}>\n{value}\n</parameter>\n" for name, value in values.items())
    rest = f"{written}</function>\n</tool_call>"
    assert call_text("qwen3_coder", schema, rest) == is_allowed
    parser = tool_parser("qwen3_coder")
    (call,) = extract(
        (parser.forced_prefix("f") or "") + rest,
        tools=parser,
        tool_specs=(ToolSpec(name="f", parameters=schema),),
    ).tool_calls
    assert not is_allowed or json.loads(call.arguments) == values


@pytest.mark.parametrize(
    ("schema", "allowed", "refused"),
    [
        ({"type": ["string", "integer"]}, ["Ulm", "5", "5 km", ""], ["5.5", " 5 ", '"Ulm"']),
        ({"type": ["string", "integer"], "minimum": 10}, ["Ulm", "12"], ["5", "5 km", '"Ulm"']),
        ({"type": ["string", "null"]}, ["Ulm", "null", "5", "2026-01-01", "nullable"], ['"Ulm"', "null "]),
        ({"enum": ["5", 7, None, [1]]}, ["7", "null", "[1]"], ["5", "8", "[2]"]),
        ({"anyOf": [{"type": "string"}, {"type": "array", "items": {"type": "boolean"}}]},
         ["x", "[true]"], ["[1]", "[x"]),
        ({}, ["x", "5", "true", '{"a": [null]}'], ["{x", "[1"]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("parser_id", ["qwen3_coder", "minicpm5"])
def test_union_with_string_is_parsed_as_the_written_type(
    parser_id: str, schema: Any, allowed: list[str], refused: list[str]
) -> None:
    begin, end = {
        "qwen3_coder": ("<parameter=a>\n", "\n</parameter>\n</function>\n</tool_call>"),
        "minicpm5": ('<param name="a">', "</param></function>"),
    }[parser_id]
    parameters = {"properties": {"a": schema}, "required": ["a"]}
    for text in allowed:
        assert call_text(parser_id, parameters, begin + text + end), text
    for text in refused:
        assert not call_text(parser_id, parameters, begin + text + end), text


def test_required_arguments_are_present_and_optional_ones_in_order() -> None:
    schema = {
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}, "c": {"type": "integer"}},
        "required": ["b"],
    }
    for names, is_allowed in (
        ("b", True),
        ("ab", True),
        ("abc", True),
        ("a", False),
        ("", False),
        ("ba", False),
        ("bd", False),
    ):
        assert (
            call_text("liquid_python", schema, ", ".join(f"{n}=1" for n in names) + ")]<|tool_call_end|>")
            == is_allowed
        ), names
        assert (
            call_text("gemma4", schema, ",".join(f"{n}:1" for n in names) + "}<tool_call|>") == is_allowed
        ), names


@pytest.mark.parametrize(
    ("parameters", "what"),
    [
        (
            {"properties": {"a": {"patternProperties": {"x": {"type": "integer"}}}}, "required": ["a"]},
            "patternProperties",
        ),
        ({"properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]}, "format 'uri'"),
        ({"properties": {"a": {"type": "string", "pattern": "^a|b$"}}, "required": ["a"]}, "parentheses"),
        ({"properties": {"a b": {"type": "string"}}, "required": ["a b"]}, "'a b' cannot be written"),
    ],
)
def test_strict_tool_with_unenforceable_keyword_raises(parameters: Any, what: str) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        call_text("qwen3_coder", parameters, "", is_strict=True, param="tools[0].function.parameters")
    assert refused.value.param == "tools[0].function.parameters"


def test_unenforceable_keywords_are_ignored_without_strict() -> None:
    schema = {"properties": {"a": {"type": "string", "format": "uri"}}, "required": ["a"]}
    assert call_text(
        "qwen3_coder", schema, "<parameter=a>\nno address\n</parameter>\n</function>\n</tool_call>"
    )
