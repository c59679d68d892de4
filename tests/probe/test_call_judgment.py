"""A call is credited for what it says, not for being one."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir import Message, TextPart, ToolCallPart
from mlxctl.probe.call_judgment import is_credited, is_undecided, judge
from mlxctl.probe.questions import TOOL_QUESTIONS

QUESTION = TOOL_QUESTIONS[0]
RIGHT = (QUESTION.tool.name, '{"city": "Lisbon"}')


def answer(*calls: tuple[str, str], text: str = "") -> Message:
    """An answer with these calls, by name and arguments."""
    parts = tuple(
        ToolCallPart(id=str(index), name=name, arguments=arguments)
        for index, (name, arguments) in enumerate(calls)
    )
    return Message(role="assistant", parts=(TextPart(text=text), *parts) if text else parts)


@pytest.mark.parametrize(
    "arguments", ['{"city": "Lisbon"}', '{"city": "lisbon, Portugal"}', '{"city": "Lisbon", "unit": "C"}']
)
def test_the_tool_on_offer_with_the_value_that_was_asked_for_is_a_call(arguments: str) -> None:
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
def test_a_name_or_a_value_of_its_own_making_is_made_up_even_beside_a_right_call(
    call: tuple[str, str],
) -> None:
    assert judge(answer(call), QUESTION) == "made_up"
    assert judge(answer(RIGHT, call), QUESTION) == "made_up"


def test_an_answer_in_words_is_silence() -> None:
    assert judge(answer(text="It is sunny in Lisbon: check_weather."), QUESTION) == "silent"


def test_only_the_question_tells_the_value_and_only_the_offer_the_name() -> None:
    for question in TOOL_QUESTIONS:
        assert question.tool.name not in question.text
        assert question.value not in str(question.tool)
        assert question.value in question.text


@given(st.lists(st.sampled_from(["called", "made_up", "silent"]), max_size=3))
def test_more_right_than_made_up_calls_are_credited_and_a_draw_is_undecided(judgements: list[str]) -> None:
    right, wrong = judgements.count("called"), judgements.count("made_up")
    assert is_credited(judgements) == (right > wrong)  # type: ignore[arg-type]
    assert is_undecided(judgements) == (right == wrong > 0)  # type: ignore[arg-type]
