"""Events are emitted as early as they are certain."""

import pytest

from mlxctl.formats.parsers import AnswerMachine, combined, extract, thinking_parser, tool_parser
from mlxctl.ir import (
    StreamEvent,
    TextDelta,
    ThinkingDelta,
    ToolArgumentsDelta,
    ToolCallEnded,
    ToolCallStarted,
)

from .replay import fold

HERMES, THINK = tool_parser("hermes_json"), thinking_parser("think_tag")


def _machine(prompt_tail: str = "", stop: tuple[str, ...] = ()) -> AnswerMachine:
    return AnswerMachine(tools=HERMES, thinking=THINK, prompt_tail=prompt_tail, stop=stop)


def test_text_is_not_held_back() -> None:
    machine = _machine()
    assert machine.feed("Hello") == [TextDelta(text="Hello")]
    assert machine.feed(" <b>") == [TextDelta(text=" <b>")]


def test_only_possible_markers_are_held_back() -> None:
    machine = _machine()
    assert machine.feed("a <to") == [TextDelta(text="a ")]
    assert machine.feed("ol") == []
    assert machine.feed("s>") == [TextDelta(text="<tools>")]


def test_thinking_streams_without_its_last_line_break() -> None:
    machine = _machine("<think>\n")
    assert machine.feed("one\n") == [ThinkingDelta(text="one")]
    assert machine.feed("two") == [ThinkingDelta(text="\ntwo")]
    assert machine.feed("\n</think>") == []
    assert not machine.is_thinking


@pytest.mark.parametrize(
    ("text", "marker"), [("Hello ", "<tool_call>"), ("Hello ", "<think>"), ("<think>\nHmm", "</think>")]
)
def test_begun_marker_of_a_cut_off_answer_is_dropped(text: str, marker: str) -> None:
    events = []
    # Up to two characters may be text.
    for length in range(3, len(marker)):
        machine = _machine()
        events.append([*machine.feed(text + marker[:length]), *machine.finish(is_cut_off=True)])
    expected = ThinkingDelta(text="Hmm") if text.startswith("<think>") else TextDelta(text="Hello ")
    assert events == [[expected]] * (len(marker) - 3)


def test_call_starts_with_the_first_character_of_its_arguments() -> None:
    machine = _machine()
    assert machine.feed('<tool_call>\n{"name": "f", "arguments": ') == []
    started, fragment = machine.feed("{")
    assert isinstance(started, ToolCallStarted)
    assert started.name == "f"
    assert fragment == ToolArgumentsDelta(index=0, json="{")


def test_arguments_stream_character_by_character() -> None:
    machine = _machine(HERMES.forced_prefix("f") or "")
    arguments = '{"text": "a \\"}\\" b", "n": [1, 2]}'
    events: list[StreamEvent] = []
    for position, char in enumerate(arguments, start=1):
        events += machine.feed(char)
        assert (
            "".join(event.json for event in events if isinstance(event, ToolArgumentsDelta))
            == arguments[:position]
        )
    assert events[-1] == ToolCallEnded(index=0)


def test_calls_have_unique_ids() -> None:
    call = '<tool_call>{"name": "f", "arguments": {}}</tool_call>'
    first, second = extract(call + call, tools=HERMES).tool_calls
    assert first.id != second.id
    assert all(
        len(part.id) == 29 and part.id.startswith("call_") and int(part.id[5:], 16) >= 0
        for part in (first, second)
    )


def test_stop_string_ends_the_answer_at_once() -> None:
    machine = _machine(stop=("END",))
    assert machine.feed("well E") == [TextDelta(text="well ")]
    assert machine.feed("ND and more") == []
    assert machine.is_over
    assert machine.finish() == []


def test_arguments_nested_too_deeply_break_only_the_call() -> None:
    machine = _machine()
    text = '<tool_call>{"name": "f", "arguments": {"a": ' + "[" * 10_000 + "</tool_call>"
    parsed = fold(machine.feed(text) + machine.finish(), num_complete_calls=machine.num_complete_calls)
    assert parsed[0][:2] == ("broken call", "f")
    assert "".join(part[-1] for part in parsed).count("[") == 10_000


def test_forced_prefix_ends_before_the_arguments() -> None:
    assert HERMES.forced_prefix(None) == "<tool_call>\n"
    assert HERMES.forced_prefix('say "hi"') == '<tool_call>\n{"name": "say \\"hi\\"", "arguments":'
    assert tool_parser("null").forced_prefix(None) is None


@pytest.mark.parametrize(
    "begun",
    [
        "",
        "<tool_call>",
        '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>',
        "<tool_call>\n<function=f>",
        "<tool_call>\n<function=f>\n</function>\n</tool_call>",
    ],
)
def test_undecided_white_space_is_read_in_linear_time(begun: str, monkeypatch: pytest.MonkeyPatch) -> None:
    machine = AnswerMachine(tools=combined(HERMES, [tool_parser("qwen3_coder")]), thinking=THINK)
    machine.feed(begun)
    lengths = []
    advance = AnswerMachine._advance

    def count(self: AnswerMachine) -> bool:
        lengths.append(len(self._buffer.text))
        return advance(self)

    monkeypatch.setattr(AnswerMachine, "_advance", count)
    for _ in range(4096):
        machine.feed(" ")
    assert sum(lengths) < 4 * 4096


def test_white_space_that_waits_comes_with_the_text_after_it() -> None:
    call, spaces = '<tool_call>\n{"name": "f", "arguments": {}}\n</tool_call>', " \n" * 50
    machine = _machine()
    events = [event for piece in [call, *spaces, "x"] for event in machine.feed(piece)]
    assert events[-1] == TextDelta(text=f"{spaces}x")
