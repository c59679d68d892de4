"""Closing tags inside values are text; those that end them are not."""

import json
import re
from functools import cache
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from mlxctl.formats.parsers import TOOL_PARSER_IDS, AnswerMachine, extract, tool_parser
from mlxctl.formats.parsers.call_writer import write_calls
from mlxctl.ir import BraceNotation, Notation, TagNotation, ToolArgumentsDelta, ToolSpec

from .replay import cut

WRITE = ToolSpec(
    name="write_file",
    parameters={"properties": {name: {"type": "string"} for name in ("path", "content", "mode")}},
)
OTHER = ToolSpec(name="g", parameters={"properties": {"x": {"type": "string"}}})
FORMATS = [
    (parser_id, index)
    for parser_id in TOOL_PARSER_IDS
    if parser_id != "null"
    for index in range(1 + len(tool_parser(parser_id).dialects))
]
ODDITIES = [
    "\n",
    " ",
    "a",
    "<",
    "</",
    "{",
    "}",
    '"',
    "'",
    "\\n",
    ",",
    ":",
    "<b>",
    "<think>",
    "]]>",
    "<|im_end|>",
]
by_format = pytest.mark.parametrize(("parser_id", "index"), FORMATS)


def _notation(parser_id: str, index: int) -> Notation:
    parser = tool_parser(parser_id)
    closing = parser.closing_after((parser.forced_prefix, *parser.dialects)[index]("g") or "")
    assert closing is not None
    return closing.notation


TAGGED = [row for row in FORMATS if isinstance(_notation(*row), TagNotation | BraceNotation)]


def _written(parser_id: str, index: int, *calls: tuple[str, dict[str, str]]) -> str:
    """Return calls as the models of a format write them."""
    parser = tool_parser(parser_id)
    text = write_calls(parser, calls, (parser.forced_prefix, *parser.dialects)[index])
    assert text is not None
    return text


def _calls(parser_id: str, chunks: list[str]) -> list[tuple[str, Any]]:
    """Return the complete calls of an answer."""
    machine = AnswerMachine(tools=tool_parser(parser_id), tool_specs=(WRITE, OTHER))
    arguments: dict[int, str] = {}
    names: list[str] = []
    for event in [event for chunk in chunks for event in machine.feed(chunk)] + machine.finish():
        if isinstance(event, ToolArgumentsDelta):
            arguments[event.index] = arguments.get(event.index, "") + event.json
        elif hasattr(event, "name"):
            names.append(event.name)
    assert machine.num_complete_calls == len(names)
    return [(name, json.loads(arguments[index])) for index, name in enumerate(names)]


@cache
def _tags(parser_id: str, index: int) -> list[str]:
    """Return the tags of a call, also without an end."""
    call = _written(parser_id, index, ("g", {"x": "1"}), ("g", {"x": "1"}))
    tags = set(re.findall(r"[<\]][^<>]*>|[{}]|\w+", call)) | tool_parser(parser_id).markers
    return sorted(tags | {tag[:-1] for tag in tags} | {tag[1:] for tag in tags})


@cache
def _ends(parser_id: str, index: int) -> re.Pattern[str]:
    """Match what in a value may not be taken for text."""
    notation = _notation(parser_id, index)
    if isinstance(notation, BraceNotation):
        return re.compile(rf"{re.escape(notation.mark)}\s*[,}}\]<]|<[\w|]+>call:")
    if not isinstance(notation, TagNotation):
        return re.compile(r"(?!)")
    end = notation.end.strip().replace("{name}", "content")
    begins = notation.begin.replace("{type}", "string").partition("{name}")[0]
    ends = "|".join(map(re.escape, filter(None, (end, *notation.ends))))
    opens = re.escape(notation.head), re.escape(begins)
    return re.compile(rf"(?:{ends})\s*[<\]]|(?:{'|'.join(opens)})[^\s<]|{re.escape(notation.mark) or '(?!)'}")


@by_format
@settings(max_examples=8, deadline=None)
@given(data=st.data())
def test_any_value_is_read_as_it_was_written(parser_id: str, index: int, data: st.DataObject) -> None:
    pieces = st.sampled_from(_tags(parser_id, index)) | st.sampled_from(ODDITIES)
    value = data.draw(st.lists(pieces, max_size=10).map("".join))
    assume(not _ends(parser_id, index).search(value))
    names = data.draw(st.permutations(["path", "content", "mode"]))
    arguments = {name: value if name == "content" else "1" for name in names}
    calls = [("write_file", arguments), ("g", {"x": value})]
    text = _written(parser_id, index, *calls[: data.draw(st.integers(1, 2))])
    whole = _calls(parser_id, [text])
    assert whole == calls[: len(whole)]
    assert _calls(parser_id, list(text)) == whole
    assert _calls(parser_id, cut(text, data.draw(st.sets(st.integers(0, 400))))) == whole


@pytest.mark.parametrize(("parser_id", "index"), TAGGED)
@pytest.mark.parametrize(
    "template", ["{call}", "see\n{call}\nand so on", "'{call}', {call}", "{call}\n{call}\n"]
)
def test_value_quotes_whole_calls(parser_id: str, index: int, template: str) -> None:
    quoted = template.replace("{call}", _written(parser_id, index, ("g", {"x": "1"})))
    calls = [("write_file", {"path": "1", "content": quoted}), ("g", {"x": "2"})]
    text = _written(parser_id, index, *calls)
    assert _calls(parser_id, [text]) == _calls(parser_id, list(text)) == calls


QWEN = "<tool_call>\n<function=write_file>\n<parameter=content>\n{}\n</parameter>\n</function>\n</tool_call>"


@pytest.mark.parametrize(
    "value",
    [
        "first\n</parameter>\nlast",
        "first\n</function>\nlast",
        "</parameter>",
        "\n</parameter>\n\n",
        "<function=demo>\n</function>\n</tool_call>",
        'END = "</parameter></function></tool_call>"',
        'END = "</parameter>\\n</function>\\n</tool_call>"',
        "<parameter=path>\n{p}\n</parameter>\n<parameter=content>\n{c}\n</parameter>",
        "a </parameter></function> without the end of the block",
        "<tool_call>, <function= and <parameter= begin",
    ],
)
def test_tags_that_do_not_go_on_are_text(value: str) -> None:
    text = QWEN.format(value)
    for chunks in ([text], list(text)):
        assert _calls("qwen3_coder", chunks) == [("write_file", {"content": value})]


@pytest.mark.parametrize(
    ("value", "content"),
    [
        ("a\n</parameter>\n<parameter=path>\nb", {"content": "a", "path": "b"}),
        ("a\n</parameter>\n<parameter=unknown>\nb", {"content": "a", "unknown": "b"}),
        ("a\n</parameter>\n<parameter=content>\nb", {"content": "b"}),
        ("a\n<parameter=path>\nb", {"content": "a", "path": "b"}),
        ("a\n</parameter>\n</function>\n</tool_call>\nb", {"content": "a"}),
    ],
)
def test_tags_that_go_on_end_the_value(value: str, content: dict[str, str]) -> None:
    message = extract(QWEN.format(value), tools=tool_parser("qwen3_coder"), tool_specs=(WRITE,))
    assert json.loads(message.tool_calls[0].arguments) == content


UNENDED = {
    "qwen3_coder": "<tool_call>\n<function=g>\n<parameter=x>\n1\n</parameter>\n"
    "<function=g>\n</function>\n</tool_call>",
    "seed_oss": "<seed:tool_call><function=g><parameter=x>1</parameter>"
    "<function=g></function></seed:tool_call>",
    "glm4_native": "<tool_call>g\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n<tool_call>g\n</tool_call>",
    "minimax_m2": '<minimax:tool_call><invoke name="g"><parameter name="x">1</parameter>'
    '<invoke name="g"></invoke></minimax:tool_call>',
    "minimax_m3": ']<]minimax[>[<tool_call>]<]minimax[>[<invoke name="g">]<]minimax[>[<x>1]<]minimax[>[</x>'
    ']<]minimax[>[<invoke name="g">]<]minimax[>[</invoke>]<]minimax[>[</tool_call>',
    "minicpm5": '<function name="g"><param name="x">1</param><function name="g"></function>',
    "deepseek": '<｜DSML｜tool_calls><｜DSML｜invoke name="g">'
    '<｜DSML｜parameter name="x">1</｜DSML｜parameter>'
    '<｜DSML｜invoke name="g"></｜DSML｜invoke></｜DSML｜tool_calls>',
}


@pytest.mark.parametrize("parser_id", UNENDED)
def test_next_call_ends_one_whose_end_is_forgotten(parser_id: str) -> None:
    text = UNENDED[parser_id]
    expected = [("g", {"x": "1"}), ("g", {})]
    assert _calls(parser_id, [text]) == _calls(parser_id, list(text)) == expected


def test_value_streams_up_to_a_tag_that_may_end_it() -> None:
    machine = AnswerMachine(tools=tool_parser("qwen3_coder"), tool_specs=(WRITE,))
    events = machine.feed(QWEN.partition("{}")[0])
    for chunk, expected in (
        ("a </par", "a "),
        ("ameter>\n", "a "),
        ("</func", "a "),
        ("tion> b", "a </parameter>\n</function> b"),
        ("\n</parameter>\nc", "a </parameter>\n</function> b\n</parameter>\nc"),
    ):
        events += machine.feed(chunk)
        streamed = "".join(event.json for event in events if isinstance(event, ToolArgumentsDelta))
        assert json.loads(streamed + '"}') == {"content": expected}
