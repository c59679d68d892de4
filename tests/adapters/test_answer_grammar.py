"""What an answer may look like, told by matching texts against the grammar, token by token, as the engine does."""

import json
import re
from dataclasses import replace
from typing import Any

import pytest
from llguidance import LLMatcher, LLTokenizer
from tokenizers import AddedToken, Tokenizer

from mlxctl.adapters import create_adapter
from mlxctl.adapters.answer_grammar import AnswerGrammars
from mlxctl.adapters.prompt import Prompt
from mlxctl.adapters.vocabulary import Vocabulary
from mlxctl.demo import MODEL_DIR
from mlxctl.errors import InvalidRequest
from mlxctl.ir import Constraint, GenerationRequest, SamplingOptions, ThinkingOptions, ToolChoice, ToolSpec, text_message
from mlxctl.models import read_model
from mlxctl.parsers import TOOL_PARSER_IDS, ThinkingParser, ToolParser, extract, thinking_parser, tool_parser

SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"], "additionalProperties": False}
TOOLS = (ToolSpec(name="first", parameters=SCHEMA), ToolSpec(name="second", parameters={}))
DEMO_TEXT = (MODEL_DIR / "tokenizer.json").read_text()
DEMO_STOP = "<|im_end|>"


class Answers:
    """Which answers a request lets a model give, that writes calls and thoughts in these formats."""

    def __init__(self, tools: ToolParser, thinking: ThinkingParser) -> None:
        tokenizer = Tokenizer.from_str(DEMO_TEXT)
        marks = sorted({mark for text in tools.markers | thinking.markers for mark in re.findall(r"<[^<>]*>|\[[A-Z_/]+\]", text)})
        tokenizer.add_tokens([AddedToken(mark, special=True) for mark in marks])
        self._text = tokenizer.to_str()
        self._stops = [tokenizer.token_to_id(DEMO_STOP)]
        self._grammars = AnswerGrammars(
            Vocabulary(tokenizer),
            tools=tools,
            thinking=thinking,
            force_call=tools.forced_prefix,
            stop_token_ids=frozenset(self._stops),
        )

    def allows(self, answer: str, request: GenerationRequest, prompt: Prompt = Prompt(text=""), start: str = "") -> bool:  # noqa: B008
        """Whether the model may say this, and end there."""
        guidance = self._grammars.guidance(request, prompt, grammar_start=start)
        assert guidance is not None
        tokenizer = LLTokenizer(self._text, eos_token=self._stops)
        matcher = LLMatcher(tokenizer, guidance.grammar)
        assert not matcher.is_error(), matcher.get_error()
        if guidance.grammar_start:
            assert matcher.consume_tokens(tokenizer.tokenize_str(guidance.grammar_start))
        tokens = tokenizer.tokenize_str(answer, parse_special=True)
        return matcher.try_consume_tokens(tokens) == len(tokens) and matcher.is_accepting()

    def guides(self, request: GenerationRequest) -> bool:
        """Whether anything is enforced."""
        return self._grammars.guidance(request, Prompt(text=""), grammar_start="") is not None


def asked(**more: Any) -> GenerationRequest:
    return GenerationRequest(model="tiny", messages=(text_message("user", "Hi"),), **more)


def form(kind: Any = "json_schema", value: Any = SCHEMA) -> Constraint:
    return Constraint(kind=kind, value=value, param="response_format")


HERMES = Answers(tool_parser("hermes_json"), thinking_parser("think_tag"))
THINKS = Prompt(text="", may_think=True)
OPENED = Prompt(text="<think>\n", tail="<think>\n", may_think=True)


def test_an_answer_has_its_form_and_nothing_else() -> None:
    request = asked(constraint=form())
    assert HERMES.allows('{"a": 1}', request)
    assert not any(HERMES.allows(text, request) for text in ("", "Sure: {}", '{"a": "x"}', '{"a": 1} ok', '{"a": 1', '{"b": 1}'))


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
def test_every_kind_of_form_is_held(kind: str, value: Any, good: str, bad: str) -> None:
    request = asked(constraint=form(kind, value))
    assert HERMES.allows(good, request)
    assert not HERMES.allows(bad, request)


def test_a_thought_comes_first_and_is_free() -> None:
    request = asked(constraint=form())
    thought = '<think>\nIs {"a": "x"} right? No <b>.\n</think>\n\n'
    assert HERMES.allows(thought + '{"a": 1}', request, THINKS)
    assert HERMES.allows('{"a": 1}', request, THINKS)
    assert HERMES.allows('Well.\n</think>\n\n{"a": 1}', request, OPENED)
    assert not HERMES.allows(thought + "Sure.", request, THINKS)
    assert not HERMES.allows('{"a": 1}', request, OPENED)
    assert not HERMES.allows(thought + '{"a": 1}', request)


@pytest.mark.parametrize(
    "parser_id", ["think_tag", "mistral_think", "seed_think", "cohere_think", "gemma4_channel", "harmony_analysis"]
)
def test_a_thought_is_told_from_the_form_in_every_format(parser_id: str) -> None:
    thinking = thinking_parser(parser_id)
    answers = Answers(tool_parser("null"), thinking)
    wrapper = next((text for text in thinking.wrappers if "final" in text), "")
    start = "<|start|>assistant" if parser_id == "harmony_analysis" else ""
    thought = f"{thinking.opener}Hm, 42?{thinking.closer}{start}{wrapper}"
    request = asked(constraint=form("regex", "[0-9]{2}"))
    assert answers.allows(f"{thought}42", request, THINKS)
    assert not answers.allows(f"{thought}no", request, THINKS)


def test_a_closing_marker_that_is_no_token_ends_a_thought_where_its_text_appears() -> None:
    marks = replace(thinking_parser("think_tag"), opener="(thinking)", closer="(done)")
    answers = Answers(tool_parser("null"), marks)
    request = asked(constraint=form("choice", ("yes", "no")))
    assert answers.allows("(thinking)well, (don't)(done)\nyes", request, THINKS)
    assert not answers.allows("(thinking)well(done)maybe", request, THINKS)


JSON_FORMATS = [parser_id for parser_id in TOOL_PARSER_IDS if tool_parser(parser_id).closings]


def test_the_formats_that_write_json_are_known() -> None:
    assert JSON_FORMATS == [
        "hermes_json", "glm4_xml", "llama_xml", "llama_python", "mistral", "harmony", "kimi_k2", "deepseek", "granite", "phi4",
        "command_r",
    ]  # fmt: skip


@pytest.mark.parametrize("parser_id", JSON_FORMATS)
def test_a_forced_call_in_a_json_format_has_a_known_name_and_fitting_arguments(parser_id: str) -> None:
    parser = tool_parser(parser_id)
    for force in (parser.forced_prefix, *parser.dialects):
        closing = parser.closing_behind(force("first") or "")
        if closing is None:
            continue
        answers = Answers(replace(parser, forced_prefix=force), thinking_parser("null"))
        prompted, whole = force(None) or "", force("first") or ""
        request = asked(tools=TOOLS, tool_choice=ToolChoice(mode="required"), parallel_tool_calls=False)
        rest = f'{whole[len(prompted) :]}{{"a": 1}}{closing}'

        assert answers.allows(rest, request)
        assert not answers.allows(rest.replace("1", '"x"'), request)
        assert not answers.allows(rest.replace("first", "third"), request)
        (call,) = extract(prompted + rest, tools=parser, offered=TOOLS).tool_calls
        assert (call.name, json.loads(call.arguments)) == ("first", {"a": 1})


def test_a_named_call_goes_on_where_the_prompt_has_begun_its_arguments() -> None:
    request = asked(tools=TOOLS, tool_choice=ToolChoice(mode="named", name="first"))
    assert HERMES.allows('a": 1}}\n</tool_call>', request, start=' {"')
    assert not HERMES.allows('b": 1}}\n</tool_call>', request, start=' {"')


def test_more_calls_follow_a_forced_one_only_in_parallel() -> None:
    first = '{"name": "first", "arguments": {"a": 1}}\n</tool_call>'
    more = '\n<tool_call>\n{"name": "second", "arguments": {"b": []}}\n</tool_call>'
    required = ToolChoice(mode="required")
    assert HERMES.allows(first + more, asked(tools=TOOLS, tool_choice=required))
    assert HERMES.allows(first, asked(tools=TOOLS, tool_choice=required))
    assert not HERMES.allows(first + more, asked(tools=TOOLS, tool_choice=required, parallel_tool_calls=False))


def test_beside_tools_an_answer_has_its_form_or_is_a_fitting_call() -> None:
    request = asked(constraint=form("choice", ("yes", "no")), tools=TOOLS)
    assert HERMES.allows("yes", request)
    assert HERMES.allows('<tool_call>\n{"name": "first", "arguments": {"a": 1}}\n</tool_call>', request)
    assert not HERMES.allows('<tool_call>\n{"name": "first", "arguments": {}}\n</tool_call>', request)
    assert not HERMES.allows("perhaps", request)


def test_calls_of_strict_tools_fit_their_schemas_though_the_text_is_free() -> None:
    strict = asked(tools=(replace(TOOLS[0], is_strict=True), TOOLS[1]))
    call = '<tool_call>\n{"name": "first", "arguments": {"a": 1}}\n</tool_call>'
    assert HERMES.allows("Just text, <b>any</b>.", strict)
    assert HERMES.allows(f"Let me see.\n{call}", strict)
    assert not HERMES.allows(call.replace("1", "null"), strict)
    assert not HERMES.guides(asked(tools=TOOLS))


def test_a_format_that_writes_no_json_enforces_no_arguments_and_takes_no_form_beside_tools() -> None:
    answers = Answers(tool_parser("qwen3_coder"), thinking_parser("null"))
    assert not answers.guides(asked(tools=TOOLS, tool_choice=ToolChoice(mode="required")))
    with pytest.raises(InvalidRequest, match="another format than JSON") as refused:
        answers.guides(asked(constraint=form(), tools=TOOLS))
    assert refused.value.param == "response_format"


def test_a_tool_whose_schema_cannot_be_enforced_is_refused_where_it_stands() -> None:
    broken = ToolSpec(name="f", parameters={"properties": {"a": {"type": "no"}}}, param="tools[0].function.parameters")
    with pytest.raises(InvalidRequest) as refused:
        HERMES.guides(asked(tools=(broken,), tool_choice=ToolChoice(mode="required")))
    assert refused.value.param == "tools[0].function.parameters.properties.a"


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        ("grammar", 'start: <no_such_token> "a"', "no_such_token"),
        ("grammar", 'start: <[99999]> "a"', "99999"),
        ("grammar", 'start: a\na: a "x"', "no text fits it"),
        ("json_schema", {"$ref": "#"}, "no text fits it"),
    ],
)
def test_a_form_that_only_fails_with_the_models_own_tokens_is_refused_as_well(kind: str, value: Any, what: str) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        HERMES.guides(asked(constraint=form(kind, value)))
    assert refused.value.param == "response_format"


@pytest.fixture(scope="module")
def demo() -> Any:
    return create_adapter(read_model(MODEL_DIR), name="demo")


def test_a_thinking_limit_is_told_in_the_models_own_tokens(demo: Any) -> None:
    limited = demo.prepare_input(asked(thinking=ThinkingOptions(enabled=True, max_tokens=5))).guidance
    assert limited is not None
    assert limited.thinking.max_tokens == 5
    assert demo.vocabulary.decode(limited.thinking.closer_ids) == "</think>"
    assert demo.vocabulary.decode(limited.thinking.closing_ids) == "\n</think>\n\n"
    assert demo.prepare_input(asked(thinking=ThinkingOptions(enabled=False, max_tokens=5))).guidance is None
    assert demo.prepare_input(asked()).guidance is None


def test_min_tokens_is_refused_beside_a_form(demo: Any) -> None:
    with pytest.raises(InvalidRequest) as refused:
        demo.prepare_input(asked(constraint=form(), sampling=SamplingOptions(min_tokens=5)))
    assert refused.value.param == "min_tokens"
