"""Parsing with every parser: own parser first; unknown tags are listed."""

from dataclasses import replace

import pytest

from mlxctl.formats.parsers import TOOL_PARSER_IDS, read_response_template
from mlxctl.probe.parser_sweep import first_working, read_with_all
from mlxctl.probe.tool_results import unknown_tags

from .sample_transcripts import answers

FORMATS = {
    "hermes_json": '<tool_call>\n{{"name": "{name}", "arguments": {{"city": "{city}"}}}}\n</tool_call>',
    "glm4_native": "<tool_call>{name}\n<arg_key>city</arg_key>\n<arg_value>{city}</arg_value>\n</tool_call>",
    "llama_python": '{{"name": "{name}", "parameters": {{"city": "{city}"}}}}',
    "liquid_python": '<|tool_call_start|>[{name}(city="{city}")]<|tool_call_end|>',
    "mistral": '[TOOL_CALLS]{name}[ARGS]{{"city": "{city}"}}',
    "qwen3_coder": "<tool_call>\n<function={name}>\n<parameter=city>\n{city}\n</parameter>\n"
    "</function>\n</tool_call>",
    "kimi_k2": "<|tool_calls_section_begin|><|tool_call_begin|>functions.{name}:0<|tool_call_argument_begin|>"
    '{{"city": "{city}"}}<|tool_call_end|><|tool_calls_section_end|>',
}
FOREIGN = "<my:call what={name}><my:value>{city}</my:value></my:call><|over|>"
SKY, CLOCK = {"name": "check_weather", "city": "Lisbon"}, {"name": "show_time", "city": "Oslo"}


@pytest.mark.parametrize("parser_id", FORMATS)
@pytest.mark.parametrize("own", ["null", "hermes_json", "gemma"])
def test_call_format_is_found_from_answers(parser_id: str, own: str) -> None:
    spoken = FORMATS[parser_id]
    found = first_working(
        read_with_all(answers(spoken.format(**SKY), spoken.format(**CLOCK)), own_parser_id=own)
    )
    assert found is not None
    assert (found.parser_id, found.judgments, found.num_left_over) == (parser_id, ("called", "called"), 0)


@pytest.mark.parametrize("own", ["gemma", "mistral"])
def test_every_parser_is_tried_own_parser_first(own: str) -> None:
    results = read_with_all(answers("Sunny.", "Noon."), own_parser_id=own)
    assert results[0].parser_id == own
    assert {parsed.parser_id for parsed in results} == set(TOOL_PARSER_IDS) - {"null"}


def test_call_inside_thinking_does_not_count() -> None:
    transcript_on = "<think>" + FORMATS["hermes_json"].format(**SKY) + "</think>Sunny."
    results = read_with_all(
        answers(transcript_on, transcript_on, thinking_parser_id="think_tag"), own_parser_id="hermes_json"
    )
    assert first_working(results) is None


def test_calls_of_unoffered_tools_do_not_count() -> None:
    made_up = FORMATS["hermes_json"].format(name="get_weather", city="Lisbon")
    results = read_with_all(answers(made_up, made_up, without_tools=made_up), own_parser_id="hermes_json")
    assert first_working(results) is None
    assert results[0].judgments == ("made_up", "made_up")
    assert results[0].calls_without_tools


def test_right_and_made_up_call_need_another_question() -> None:
    spoken = FORMATS["hermes_json"]
    parsed = read_with_all(answers(spoken.format(**SKY), spoken.format(**SKY)), own_parser_id="hermes_json")[
        0
    ]
    assert (parsed.can_call_tools, parsed.is_undecided) == (False, True)


def test_unknown_tags_are_listed_once_without_those_of_the_prompt() -> None:
    prompt = "<|im_start|>user\n<tools>{}</tools><|im_end|>"
    answer = (
        FOREIGN.format(**SKY) + "<tools><|im_start|><think></think>" + FORMATS["hermes_json"].format(**SKY)
    )
    assert unknown_tags([(prompt, answer), (prompt, answer)]) == [
        "<my:call what=check_weather>", "<my:value>", "</my:value>", "</my:call>", "<|over|>",
    ]  # fmt: skip


def test_comparison_operators_are_no_tags() -> None:
    assert unknown_tags([("", "1 < 2 and 3 > 2, a<b, c>d; <3 <https://x> < tag>")]) == []


def test_format_that_only_the_model_describes_is_found() -> None:
    field = {
        "open_pattern": r"<my:call what=(?P<name>\w+)>",
        "close": "</my:call>",
        "content": "xml-inline",
        "content_args": {"tag_pattern": "<my:(?P<key>value)>(?P<value>.*?)</my:value>"},
        "transform": {
            "type": "function",
            "function": {"name": "{name}", "arguments": {"city": "{content.value}"}},
        },
    }
    described = read_response_template({"response_template": {"fields": {"tool_calls": field}}})
    spoken = replace(answers(FOREIGN.format(**SKY), FOREIGN.format(**CLOCK)), described=described)
    found = first_working(read_with_all(spoken, own_parser_id="hermes_json"))
    assert found is not None
    assert (found.parser_id, found.judgments) == ("response_template", ("called", "called"))
