"""The checks of answers find what is wrong with them."""

import json
from typing import Any

import pytest

from tests.real_models.judgment import problems_of, problems_of_calls
from tests.real_models.schemas import SCHEMAS
from tests.real_models.tools import TOOLS


def choice(*calls: tuple[str, str], reason: str = "tool_calls") -> dict[str, Any]:
    made = [{"function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    return {"message": {"tool_calls": made}, "finish_reason": reason}


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("the_tool", "{}", "the_tool was not offered"),
        ("get_weather", '{"city": "Oslo"', "no JSON"),
        ("get_weather", "{}", "'city' is a required property"),
        ("get_weather", '{"city": "Oslo", "type": "object"}', "'type' was unexpected"),
        (
            "create_order",
            '{"customer": {"name": "Ada", "items": 1}, "items": [{"sku": "B", "quantity": 1}]}',
            "'items' was unexpected",
        ),
    ],
)
def test_wrong_call_is_found(name: str, arguments: str, words: str) -> None:
    (problem,) = problems_of_calls(choice((name, arguments)), list(TOOLS.values()))
    assert words in problem


def test_only_the_last_call_of_a_cut_off_answer_may_be_incomplete() -> None:
    whole, cut = ("get_weather", '{"city": "Oslo"}'), ("get_weather", '{"ci')
    invented = ("get_weather", '{"city": "Oslo", "type": "obj')
    tools = [TOOLS["get_weather"]]
    assert problems_of_calls(choice(whole, cut, reason="length"), tools) == []
    assert len(problems_of_calls(choice(cut, whole, reason="length"), tools)) == 1
    assert len(problems_of_calls(choice(whole, invented, reason="length"), tools)) == 1


def test_invented_property_of_a_recursive_schema_is_found() -> None:
    leaf = {"type": "div", "label": "a", "children": []}
    schema = SCHEMAS["interface tree"][1]
    assert problems_of(json.dumps(leaf | {"children": [leaf]}), schema) == []
    assert len(problems_of(json.dumps(leaf | {"children": [leaf | {"style": "bold"}]}), schema)) == 1
