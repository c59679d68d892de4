"""A parser that also reads other formats: a model may call in its own, though it was asked to call in
another.
"""

from mlxctl.parsers import combined, extract, tool_parser

HERMES, DEEPSEEK = tool_parser("hermes_json"), tool_parser("deepseek")
BOTH = combined(HERMES, [DEEPSEEK])
NATIVE = '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}<｜tool▁call▁end｜><｜tool▁calls▁end｜>'


def test_calls_of_every_format_are_read_and_no_marker_is_left() -> None:
    for text in ('I look.<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', f"I look.{NATIVE}"):
        message = extract(text, tools=BOTH)
        assert message.text == "I look."
        assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", '{"a": 1}')]


def test_calls_are_forced_as_the_first_format_writes_them() -> None:
    assert BOTH.id == HERMES.id
    assert BOTH.forced_prefix("f") == HERMES.forced_prefix("f")
    assert BOTH.closings == HERMES.closings


def test_a_marker_that_both_have_is_the_first_formats() -> None:
    both = combined(HERMES, [tool_parser("glm4_native")])
    (call,) = extract('<tool_call>{"name": "f", "arguments": {}}</tool_call>', tools=both).tool_calls
    assert call.name == "f"
