"""Judgment of tool calls."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir import Message, TextPart, ToolCallPart
from mlxctl.probe.call_judgment import can_call_tools, is_undecided, judge
from mlxctl.probe.questions import TOOL_QUESTIONS

QUESTION = TOOL_QUESTIONS[0]
RIGHT = (QUESTION.tool.name, '{"city": "Lisbon"}')


def answer(*calls: tuple[str, str], text: str = "") -> Message:
    """Create an answer with calls, by name and arguments."""
    parts = tuple(
        ToolCallPart(id=str(index), name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(calls)
    )
    return Message(role="assistant", parts=(TextPart(text=text), *parts) if text else parts)


@pytest.mark.parametrize(
    "arguments", ['{"city": "Lisbon"}', '{"city": "lisbon, Portugal"}', '{"city": "Lisbon", "unit": "C"}']
)
def test_offered_tool_with_expected_value_is_a_call(arguments: str) -> None:
    assert judge(answer((QUESTION.tool.name, arguments)), QUESTION) == "called"
    assert judge(answer(RIGHT, (QUESTION.tool.name, arguments), text="Let me look."), QUESTION) == "called"


@pytest.mark.parametrize(
    "call",
    [
        ("get_weather", '{"city": "Lisbon"}'),
        (QUESTION.tool.name, '{"city": "Paris"}'),
        (QUESTION.tool.name, '{"place": "Lisbon"}'),
        (QUESTION.tool.name, '{"city": ["Lisbon"]}'),
        (QUESTION.tool.name, '{"city": "Lis'),
        (QUESTION.tool.name, '"Lisbon"'),
    ],
)
def test_wrong_name_or_value_is_made_up(
    call: tuple[str, str],
) -> None:
    assert judge(answer(call), QUESTION) == "made_up"
    assert judge(answer(RIGHT, call), QUESTION) == "made_up"


def test_answer_without_call_is_no_call() -> None:
    assert judge(answer(text="It is sunny in Lisbon: check_weather."), QUESTION) == "no_call"


def test_questions_hold_the_value_and_tools_the_name() -> None:
    for question in TOOL_QUESTIONS:
        assert question.tool.name not in question.text
        assert question.value not in str(question.tool)
        assert question.value in question.text


@given(st.lists(st.sampled_from(["called", "made_up", "no_call"]), max_size=3))
def test_majority_decides_and_a_draw_is_undecided(judgments: list[str]) -> None:
    right, wrong = judgments.count("called"), judgments.count("made_up")
    assert can_call_tools(judgments) == (right > wrong)  # type: ignore[arg-type]
    assert is_undecided(judgments) == (right == wrong > 0)  # type: ignore[arg-type]
