"""What every format promises: it never raises, loses nothing, and says the same however its text arrives."""

import json
import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.ir import ToolSpec
from mlxctl.parsers import THINKING_PARSER_IDS, TOOL_PARSER_IDS, AnswerMachine, extract, tool_parser
from mlxctl.parsers.json_value import is_json_object

from .replay import Transcript, cut, fold, load_transcripts

TRANSCRIPTS = load_transcripts()
FORMATS = [parser_id for parser_id in TOOL_PARSER_IDS if parser_id != "null"]
ODDITIES = [
    "\n",
    " ",
    '"',
    "'",
    "\\",
    "\\u12",
    "{",
    "}",
    "[",
    "]",
    "(",
    ")",
    ",",
    ":",
    "=",
    "<",
    ">",
    "é漢👩‍👧",
    "\x00",
    "inf",
    "NaN",
    "-1e999",
]
by_format = pytest.mark.parametrize("parser_id", FORMATS)


def _fragments(parser_id: str) -> list[str]:
    """What the format is made of: its markers, and its transcripts torn to pieces."""
    tools = tool_parser(parser_id)
    markers = sorted(tools.markers) + [text for name in (None, "f") if (text := tools.forced_prefix(name))]
    pattern = re.compile("|".join([*map(re.escape, sorted(markers, key=len, reverse=True)), r"</?\w+>?", r"\w+", r"\s+", r"."]))
    torn = {piece for case in TRANSCRIPTS if case.tools == parser_id for piece in pattern.findall(case.text)}
    return [*markers, *markers, *sorted(torn), *ODDITIES]


TEXTS = {parser_id: st.lists(st.sampled_from(_fragments(parser_id)), max_size=30).map("".join) for parser_id in FORMATS}
OFFERED = {parser_id: next(case.offered for case in TRANSCRIPTS if case.tools == parser_id) for parser_id in FORMATS}


def _mutated(parser_id: str) -> st.SearchStrategy[str]:
    """A transcript with pieces taken out, doubled or put in: closer to real mistakes than any heap of fragments."""
    texts = [case.text for case in TRANSCRIPTS if case.tools == parser_id and case.text]
    places = st.lists(st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(_fragments(parser_id))), max_size=3)
    return st.tuples(st.sampled_from(texts), places).map(lambda drawn: _edit(*drawn))


def _edit(text: str, edits: list[tuple[int, int, str]]) -> str:
    for place, length, fragment in edits:
        at = place % (len(text) + 1)
        text = text[:at] + fragment + text[at + length :]
    return text


def _said(parser_id: str, chunks: list[str], thinking: str) -> list[tuple[str, ...]]:
    case = Transcript(id="", text="", expect=(), tools=parser_id, thinking=thinking, offered=OFFERED[parser_id])
    machine = case.machine()
    events = [event for chunk in chunks for event in machine.feed(chunk)]
    return fold(events + machine.finish())


@by_format
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_chunking_does_not_matter(parser_id: str, data: st.DataObject) -> None:
    text = data.draw(TEXTS[parser_id] | _mutated(parser_id))
    places = data.draw(st.sets(st.integers(0, 200)))
    thinking = data.draw(st.sampled_from(THINKING_PARSER_IDS))
    whole = _said(parser_id, [text], thinking)
    assert _said(parser_id, cut(text, places), thinking) == whole
    assert _said(parser_id, list(text), thinking) == whole


@by_format
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_text_without_a_call_comes_out_as_it_went_in(parser_id: str, data: st.DataObject) -> None:
    text = data.draw(TEXTS[parser_id] | _mutated(parser_id))
    message = extract(text, tools=tool_parser(parser_id), offered=OFFERED[parser_id])
    if not message.tool_calls:
        assert message.text == text


@by_format
@settings(max_examples=40, deadline=None)
@given(data=st.data())
def test_the_arguments_of_a_complete_call_are_an_object(parser_id: str, data: st.DataObject) -> None:
    machine = AnswerMachine(tools=tool_parser(parser_id), offered=OFFERED[parser_id])
    events = machine.feed(data.draw(_mutated(parser_id))) + machine.finish()
    said = fold(events)
    assert sum(part[0] == "call" and is_json_object(part[2]) for part in said) >= machine.num_complete_calls, said


@by_format
@pytest.mark.parametrize(
    "mad", ["[" * 20_000, '{"a":' * 20_000, "(" * 20_000, "<a>" * 20_000, "9" * 20_000, "x" * 20_000, "\\" * 20_001]
)
def test_what_goes_deep_or_on_and_on_breaks_nothing(parser_id: str, mad: str) -> None:
    tools = tool_parser(parser_id)
    for prefix in (tools.forced_prefix(None), tools.forced_prefix("f"), tools.opener):
        machine = AnswerMachine(tools=tools, offered=OFFERED[parser_id])
        events = [event for chunk in cut((prefix or "") + mad, range(0, 30_000, 1000)) for event in machine.feed(chunk)]
        said = fold(events + machine.finish())
        assert sum(len(part) for parts in said for part in parts[1:]) >= len(mad)


OBJECT = '{"text": "x \\"y\\" ü", "count": 7}'
QWEN = '<parameter=text>\nx "y" ü\n</parameter>\n<parameter=count>\n7\n</parameter>\n</function>\n'
GLM = '<arg_key>text</arg_key>\n<arg_value>x "y" ü</arg_value>\n<arg_key>count</arg_key>\n<arg_value>7</arg_value>\n</tool_call>'
NAMED = '<parameter name="text">x "y" ü</parameter>\n<parameter name="count">7</parameter>\n</invoke>\n'
DSML = (
    '<｜DSML｜parameter name="text" string="true">x "y" ü</｜DSML｜parameter>\n'
    '<｜DSML｜parameter name="count" string="false">7</｜DSML｜parameter>\n</｜DSML｜invoke>\n'
)
PYTHON = 'text="x \\"y\\" ü", count=7)'
# How a model goes on behind the forced prefix of a named tool; one for each dialect.
CONTINUED = {
    "hermes_json": [f" {OBJECT}}}\n</tool_call>"],
    "qwen3_coder": [QWEN + "</tool_call>"],
    "seed_oss": [QWEN + "</seed:tool_call>"],
    "glm4_native": [GLM, GLM],
    "glm4_xml": [OBJECT + "</arguments></tool_call>"],
    "llama_xml": [OBJECT + "</function>"],
    "llama_python": [f" {OBJECT}}}", f" {OBJECT}}}", PYTHON + "]"],
    "liquid_python": [PYTHON + "]<|tool_call_end|>"],
    "mistral": [OBJECT, f" {OBJECT}}}]", f" {OBJECT}}}]"],
    "harmony": [OBJECT],
    "gemma4": ['text:<|"|>x "y" ü<|"|>,count:7}<tool_call|>'],
    "function_gemma": ['text:<escape>x "y" ü<escape>,count:7}<end_function_call>'],
    "gemma": [PYTHON + "\n```"],
    "kimi_k2": [OBJECT + "<|tool_call_end|><|tool_calls_section_end|>"],
    "minimax_m2": [NAMED + "</minimax:tool_call>"],
    "deepseek": [
        OBJECT + "<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        OBJECT + "\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        DSML + "</｜DSML｜function_calls>",
        DSML + "</｜DSML｜tool_calls>",
    ],
    "phi4": [f" {OBJECT}}}]<|/tool_call|>"],
    "granite": [f" {OBJECT}}}]"],
    "command_r": [f" {OBJECT}}}\n]<|END_ACTION|>", f" {OBJECT}}}\n]```"],
    "minicpm5": ['<param name="text">x "y" ü</param><param name="count">7</param></function>'],
}
TYPED = (ToolSpec(name="f", parameters={"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}),)


@by_format
def test_a_forced_call_goes_on_where_the_prompt_ends(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    forces = (tools.forced_prefix, *tools.dialects)
    assert len(forces) == len(CONTINUED[parser_id])
    for force, text in zip(forces, CONTINUED[parser_id], strict=True):
        prefix = force("f")
        assert prefix is not None
        message = extract(text, tools=tools, offered=TYPED, prompt_tail=prefix)
        assert message.text == ""
        assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [("f", {"text": 'x "y" ü', "count": 7})]


@by_format
def test_a_prefix_for_any_tool_begins_the_one_for_a_named_tool(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    for force in (tools.forced_prefix, *tools.dialects):
        anyone, named = force(None), force("f")
        assert anyone
        assert named is not None
        assert named.startswith(anyone)


@pytest.mark.parametrize("parser_id", ["qwen3_coder", "glm4_native", "liquid_python", "gemma4", "deepseek"])
def test_a_string_argument_streams_as_it_comes(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    force, text = [*zip((tools.forced_prefix, *tools.dialects), CONTINUED[parser_id], strict=True)][-1]
    machine = AnswerMachine(tools=tools, offered=TYPED, prompt_tail=force("f") or "")
    before = text[: text.index("x ") + 2]
    assert fold([*machine.feed(before), *machine.finish()])[0][:3] == ("call", "f", '{"text": "x ')
