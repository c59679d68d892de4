"""Every format: never raises, loses nothing, independent of chunking."""

import json
import re
from collections.abc import Callable
from functools import cache
from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.parsers import (
    THINKING_PARSER_IDS,
    TOOL_PARSER_IDS,
    AnswerMachine,
    ThinkingParser,
    ToolParser,
    extract,
    thinking_parser,
    tool_parser,
)
from mlxctl.formats.parsers.json_value import is_json_object
from mlxctl.ir import ToolSpec

from .replay import Transcript, cut, fold, load_continued, load_transcripts

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
    """Return markers and pieces of the format's transcripts."""
    tools = tool_parser(parser_id)
    markers = sorted(tools.markers) + [text for name in (None, "f") if (text := tools.forced_prefix(name))]
    pattern = re.compile(
        "|".join([*map(re.escape, sorted(markers, key=len, reverse=True)), r"</?\w+>?", r"\w+", r"\s+", r"."])
    )
    torn = {piece for case in TRANSCRIPTS if case.tools == parser_id for piece in pattern.findall(case.text)}
    return [*markers, *markers, *sorted(torn), *ODDITIES]


TEXTS = {
    parser_id: st.lists(st.sampled_from(_fragments(parser_id)), max_size=30).map("".join)
    for parser_id in FORMATS
}


def _offered(parser_id: str) -> tuple[ToolSpec, ...]:
    cases = [case for case in TRANSCRIPTS if case.tools == parser_id]
    assert cases, (
        f"no file in tests/formats/parsers/transcripts has tools = {parser_id!r}: add {parser_id}.toml"
    )
    return cases[0].tool_specs


OFFERED = {parser_id: _offered(parser_id) for parser_id in FORMATS}


@cache
def _mutated(parser_id: str) -> st.SearchStrategy[str]:
    """Return transcripts with pieces removed, doubled or inserted.

    They resemble real errors more than random fragments do.
    """
    texts = [case.text for case in TRANSCRIPTS if case.tools == parser_id and case.text]
    places = st.lists(
        st.tuples(st.integers(0, 400), st.integers(0, 12), st.sampled_from(_fragments(parser_id))), max_size=3
    )
    return st.tuples(st.sampled_from(texts), places).map(lambda drawn: _edit(*drawn))


def _edit(text: str, edits: list[tuple[int, int, str]]) -> str:
    for place, length, fragment in edits:
        at = place % (len(text) + 1)
        text = text[:at] + fragment + text[at + length :]
    return text


def _parse(
    parser_id: str, chunks: list[str], thinking: ThinkingParser, *, is_open: bool
) -> list[tuple[str, ...]]:
    tail = thinking.opener if is_open else ""
    case = Transcript(
        id="",
        text="",
        expect=(),
        tools=parser_id,
        thinking=thinking.id,
        tool_specs=OFFERED[parser_id],
        prompt_tail=tail,
    )
    machine = case.machine()
    events = [event for chunk in chunks for event in machine.feed(chunk)]
    return fold(events + machine.finish())


def test_every_format_has_the_id_of_its_row() -> None:
    assert {parser_id: tool_parser(parser_id).id for parser_id in TOOL_PARSER_IDS} == {
        parser_id: parser_id for parser_id in TOOL_PARSER_IDS
    }
    assert {parser_id: thinking_parser(parser_id).id for parser_id in THINKING_PARSER_IDS} == {
        parser_id: parser_id for parser_id in THINKING_PARSER_IDS
    }


@by_format
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_chunking_does_not_matter(parser_id: str, data: st.DataObject) -> None:
    text = data.draw(TEXTS[parser_id] | _mutated(parser_id))
    places = data.draw(st.sets(st.integers(0, 200)))
    thinking = thinking_parser(data.draw(st.sampled_from(THINKING_PARSER_IDS)))
    is_open = data.draw(st.booleans())
    if data.draw(st.booleans()):
        text += thinking.closer + data.draw(TEXTS[parser_id])
    whole = _parse(parser_id, [text], thinking, is_open=is_open)
    assert _parse(parser_id, cut(text, places), thinking, is_open=is_open) == whole
    assert _parse(parser_id, list(text), thinking, is_open=is_open) == whole


@by_format
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_call_in_a_closed_thought_does_not_count(parser_id: str, data: st.DataObject) -> None:
    thinking = thinking_parser(data.draw(st.sampled_from(["think_tag", "mm_think", "longcat_think"])))
    text = data.draw(_mutated(parser_id))
    if (
        any(marker in text + thinking.closer for marker in thinking.markers - {thinking.closer})
        or thinking.closer in text
    ):
        return
    parsed = _parse(parser_id, list(text + thinking.closer + "So."), thinking, is_open=True)
    assert [kind for kind, *_ in parsed] in (["thinking", "text"], ["text"])
    assert "".join(part[1] for part in parsed).replace("\n", "") == f"{text}So.".replace("\n", "")


@by_format
def test_call_in_an_unclosed_thought_counts(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    for force, text in _forced_calls(parser_id):
        call = f"{force('f')}{text}"
        if not any(opener in call for opener in tools.openers):
            continue
        for chunks in ([f"I call.\n{call}"], list(f"I call.\n{call}")):
            machine = AnswerMachine(
                tools=tools, thinking=thinking_parser("think_tag"), tool_specs=TYPED, prompt_tail="<think>"
            )
            parsed = fold([event for chunk in chunks for event in machine.feed(chunk)] + machine.finish())
            assert parsed[0] == ("thinking", "I call.\n".rstrip(tools.space_before))
            assert [part[:2] for part in parsed[1:]] == [("call", "f")]


@by_format
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_text_without_a_call_loses_only_tokens_and_a_begun_call(parser_id: str, data: st.DataObject) -> None:
    tools = tool_parser(parser_id)
    text = data.draw(TEXTS[parser_id] | _mutated(parser_id))
    message = extract(text, tools=tools, tool_specs=OFFERED[parser_id])
    if message.tool_calls:
        return
    before, after = _without_tokens(text, tools), _without_tokens(message.text, tools)
    before = _without_empty_blocks(before, tools)
    forces = tools.forced_prefix, *tools.dialects
    begun = (force(tool.name) or "" for force in forces for tool in OFFERED[parser_id])
    assert before.startswith(after)
    assert len(before) - len(after) <= max(map(len, (*tools.markers, *begun)))


@by_format
def test_call_that_only_begins_is_no_text(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    for force, _ in _forced_calls(parser_id):
        prefix = force("f")
        opener = max((opener for opener in tools.openers if prefix.startswith(opener)), key=len, default=None)
        for length in range(len(opener or prefix) + 1, len(prefix) + 1):
            message = extract(f"I look.{prefix[:length]}", tools=tools, tool_specs=TYPED)
            assert message.text.rstrip() == "I look.", prefix[:length]


@by_format
def test_cut_off_head_of_any_call_is_no_text(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    for force, _ in _forced_calls(parser_id):
        head = force("no_such_tool")
        opener = max((opener for opener in tools.openers if head.startswith(opener)), key=len, default=None)
        for length in range(len(opener or head) + 1, len(head) + 1):
            machine = AnswerMachine(tools=tools, tool_specs=TYPED)
            parsed = fold(machine.feed(f"I look.{head[:length]}") + machine.finish(is_cut_off=True))
            said = "".join(part[1] for part in parsed if part[0] == "text")
            # Some formats have no calls of tools that are not offered: theirs are text once that is certain.
            assert said.rstrip() in ("I look.", f"I look.{head}"), head[:length]


def _without_empty_blocks(text: str, tools: ToolParser) -> str:
    """Drop blocks before any text that are only their markers."""
    openers, closers = ("|".join(map(re.escape, marks)) for marks in (tools.openers, tools.closers))
    return re.sub(rf"\A(\s*({openers})\s*({closers}))+", "", text) if openers and closers else text


def _without_tokens(text: str, tools: ToolParser) -> str:
    """Return the text without control tokens and white space."""
    tokens = "|".join(map(re.escape, sorted(tools.control_tokens, key=len, reverse=True)))
    while tokens and text != (text := re.sub(tokens, "", text)):
        pass
    return "".join(text.split())


@by_format
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_cut_off_answer_has_no_part_of_a_marker(parser_id: str, data: st.DataObject) -> None:
    tools = tool_parser(parser_id)
    case = data.draw(st.sampled_from([case for case in TRANSCRIPTS if case.tools == parser_id and case.text]))
    text = case.text[: data.draw(st.integers(0, len(case.text)))]
    thinking = thinking_parser(case.thinking)
    parsed = _parse(parser_id, [text], thinking, is_open=False)
    assert _parse(parser_id, list(text), thinking, is_open=False) == parsed
    shown = "".join(part[1] for part in parsed if part[0] == "text")
    assert not any(token in shown for token in tools.control_tokens)
    for marker in tools.openers | tools.control_tokens:
        if marker.startswith(("<", "[")):
            assert not any(shown.endswith(marker[:length]) for length in range(8, len(marker)))


@by_format
@settings(max_examples=12, deadline=None)
@given(data=st.data())
def test_arguments_of_a_complete_call_are_an_object(parser_id: str, data: st.DataObject) -> None:
    machine = AnswerMachine(tools=tool_parser(parser_id), tool_specs=OFFERED[parser_id])
    events = machine.feed(data.draw(_mutated(parser_id))) + machine.finish()
    parsed = fold(events)
    assert (
        sum(part[0] == "call" and is_json_object(part[2]) for part in parsed) >= machine.num_complete_calls
    ), parsed


LONG_TEXTS = (
    "[" * 5_000, '{"a":' * 5_000, "(" * 5_000, "<a>" * 5_000, "9" * 5_000, "x" * 5_000, "\\" * 5_001,
)  # fmt: skip


@by_format
def test_deeply_nested_or_endless_text_is_parsed(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    prefixes = (tools.forced_prefix(None), tools.forced_prefix("f"), tools.opener)
    for prefix, text in product(prefixes, LONG_TEXTS):
        machine = AnswerMachine(tools=tools, tool_specs=OFFERED[parser_id])
        events = [
            event
            for chunk in cut((prefix or "") + text, range(0, 30_000, 250))
            for event in machine.feed(chunk)
        ]
        parsed = fold(events + machine.finish())
        # The start of a call is not emitted again.
        num_chars = sum(len(part) for parts in parsed for part in parts[1:])
        assert num_chars >= len(text) - len('{"a":'), (prefix, text[:9])


CONTINUED = load_continued()


def _forced_calls(parser_id: str) -> list[tuple[Callable[[str | None], str | None], str]]:
    """Return the forced prefixes, each with a model's continuation."""
    tools, continued = tool_parser(parser_id), CONTINUED.get(parser_id, [])
    forces = (tools.forced_prefix, *tools.dialects)
    assert len(continued) == len(forces), (
        f"tests/formats/parsers/transcripts/{parser_id}.toml: `continued` needs {len(forces)} texts, "
        f"for the forced prefix and for each dialect; it has {len(continued)}"
    )
    return list(zip(forces, continued, strict=True))


TYPED = (
    ToolSpec(name="f", parameters={"properties": {"text": {"type": "string"}, "count": {"type": "integer"}}}),
)


@by_format
def test_forced_call_continues_where_the_prompt_ends(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    for force, text in _forced_calls(parser_id):
        prefix = force("f")
        assert prefix is not None
        message = extract(text, tools=tools, tool_specs=TYPED, prompt_tail=prefix)
        assert message.text == ""
        assert [(call.name, json.loads(call.arguments)) for call in message.tool_calls] == [
            ("f", {"text": 'x "y" ü', "count": 7})
        ]


@by_format
def test_any_tool_prefix_begins_every_named_prefix(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    for force in (tools.forced_prefix, *tools.dialects):
        anyone, named = force(None), force("f")
        assert anyone
        assert named is not None
        assert named.startswith(anyone)


@pytest.mark.parametrize("parser_id", ["qwen3_coder", "glm4_native", "liquid_python", "gemma4", "deepseek"])
def test_string_arguments_stream(parser_id: str) -> None:
    tools = tool_parser(parser_id)
    force, text = [*zip((tools.forced_prefix, *tools.dialects), CONTINUED[parser_id], strict=True)][-1]
    machine = AnswerMachine(tools=tools, tool_specs=TYPED, prompt_tail=force("f") or "")
    before = text[: text.index("x ") + 2]
    events = [*machine.feed(before), *machine.finish(is_cut_off=True)]
    assert fold(events)[0][:3] == ("call", "f", '{"text": "x ')
