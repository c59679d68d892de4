"""A combined parser also reads the formats of others."""

from mlxctl.formats.parsers import combined, extract, tool_parser

HERMES, DEEPSEEK = tool_parser("hermes_json"), tool_parser("deepseek")
BOTH = combined(HERMES, [DEEPSEEK])
NATIVE = (
    '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>f<｜tool▁sep｜>{"a": 1}'
    "<｜tool▁call▁end｜><｜tool▁calls▁end｜>"
)


def test_combined_parser_reads_calls_of_every_format() -> None:
    for text in ('I look.<tool_call>{"name": "f", "arguments": {"a": 1}}</tool_call>', f"I look.{NATIVE}"):
        message = extract(text, tools=BOTH)
        assert message.text == "I look."
        assert [(call.name, call.arguments) for call in message.tool_calls] == [("f", '{"a": 1}')]


def test_combined_parser_forces_calls_in_the_first_format() -> None:
    assert BOTH.id == HERMES.id
    assert BOTH.forced_prefix("f") == HERMES.forced_prefix("f")
    assert BOTH.closings == HERMES.closings


def test_shared_marker_belongs_to_the_first_format() -> None:
    both = combined(HERMES, [tool_parser("glm4_native")])
    (call,) = extract('<tool_call>{"name": "f", "arguments": {}}</tool_call>', tools=both).tool_calls
    assert call.name == "f"
