"""Any text: nothing raises, nothing is lost, chunking does not matter."""

import json
import re

from hypothesis import given, settings
from hypothesis import strategies as st

from mlxctl.formats.parsers import extract, thinking_parser, tool_parser

from .replay import Transcript, cut, fold

HERMES, THINK = tool_parser("hermes_json"), thinking_parser("think_tag")

FRAGMENTS = st.sampled_from(
    [
        "<tool_call>", "</tool_call>", "<think>", "</think>", "<tool_", "</thi", "<", "{", "}", "[", "]", '"',
        "\\", ":", ",", '{"name": "f", "arguments": ', '{"name": "f", "arguments": {}}', '"name": "g"',
        '"arguments": {"a": [1, "}"]}', "null", "\n", " ", "\n\n", "word", "é漢👩‍👧", "ST", "STOP", "\x00",
    ]
)  # fmt: skip
TEXTS = st.lists(FRAGMENTS, max_size=25).map("".join)
PLACES = st.sets(st.integers(0, 200))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)


def _parse(
    text: str, chunks: list[str], stop: tuple[str, ...], tools: str = "hermes_json"
) -> tuple[list[tuple[str, ...]], str | None]:
    machine = Transcript(id="", text=text, expect=(), tools=tools, thinking="think_tag", stop=stop).machine()
    events = [event for chunk in chunks if not machine.is_over for event in machine.feed(chunk)]
    parsed = fold(events + machine.finish(), num_complete_calls=machine.num_complete_calls)
    return parsed, machine.stop_sequence


@settings(max_examples=100, deadline=None)
@given(TEXTS, PLACES, st.sampled_from([(), ("STOP",), ("\n\n", "d\nw", "STO")]))
def test_chunking_does_not_matter(text: str, places: set[int], stop: tuple[str, ...]) -> None:
    whole = _parse(text, [text], stop)
    assert _parse(text, cut(text, places), stop) == whole
    assert _parse(text, list(text), stop) == whole


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_text_without_a_call_is_unchanged(text: str) -> None:
    message = extract(text, tools=HERMES)
    if not message.tool_calls:
        expected = re.sub(r"<tool_call>[ \t\r\n]*\Z|<tool_\Z", "", text)
        assert message.text == expected or not (message.text + expected).strip()


@settings(max_examples=150, deadline=None)
@given(TEXTS)
def test_thinking_and_text_lose_only_tags_and_blanks(text: str) -> None:
    message = extract(text, thinking=THINK)
    parsed = "".join(getattr(part, "text", "") for part in message.parts)
    assert _bare(parsed) == _bare(text)


def _bare(text: str) -> str:
    return "".join(text.replace("<think>", "").replace("</think>", "").split())


@settings(max_examples=100, deadline=None)
@given(st.text(min_size=1), st.dictionaries(st.text(), JSON_VALUES, max_size=4), st.booleans(), PLACES)
def test_any_call_round_trips(
    name: str, arguments: dict[str, object], ascii_only: bool, places: set[int]
) -> None:
    text = json.dumps(arguments, ensure_ascii=ascii_only)
    call = f'<tool_call>\n{{"name": {json.dumps(name)}, "arguments": {text}}}\n</tool_call>'
    assert _parse(call, cut(call, places), ()) == ([("call", name, text)], None)


@settings(max_examples=100, deadline=None)
@given(st.text(), st.text(min_size=1, max_size=5), st.text())
def test_stop_string_never_leaks(before: str, stop: str, after: str) -> None:
    parsed, found = _parse("", list(before + stop + after), (stop,), tools="null")
    text = "".join(parsed_text for kind, parsed_text in parsed if kind == "text")
    assert found == stop
    assert stop not in text
    assert (before + stop).startswith(text)
