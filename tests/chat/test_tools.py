"""The demo tools: results and errors."""

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.chat.tools.calculator import calculate
from mlxctl.chat.tools.demo import DEMO_TOOLS, run_call, tell_time
from mlxctl.ir import ToolCallPart


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("(2 + 3) * 4", "20"),
        ("7 / 2", "3.5"),
        ("2**10", "1024"),
        ("2^10", "1024"),
        ("-3 % 5", "2"),
        ("0.1 + 0.2", "0.3"),
    ],
)
def test_arithmetic_results(expression: str, value: str) -> None:
    assert calculate(expression) == value


@pytest.mark.parametrize(
    "expression",
    [
        "__import__('os')",
        "open('x')",
        "(1).__class__",
        "[1][0]",
        "x",
        "'a' * 9",
        "True + 1",
        "1 if 1 else 2",
        "",
        "1 +",
    ],
)
def test_other_expressions_are_rejected(expression: str) -> None:
    with pytest.raises(ValueError, match=r"only numbers|not an arithmetic expression"):
        calculate(expression)


@pytest.mark.parametrize(
    "expression", ["9**9**9", "10**400 * 1.0", "2**-2000", "1/0", "(-8)**0.5", "9" * 501, "(" * 300]
)
def test_expensive_or_undefined_expressions_are_rejected(expression: str) -> None:
    with pytest.raises(ValueError, match=r"large|most|zero|real|longer|not an arithmetic"):
        calculate(expression)


@given(st.integers(-(10**9), 10**9), st.integers(-(10**9), 10**9))
def test_sums_match_python(left: int, right: int) -> None:
    assert calculate(f"{left} + ({right})") == str(left + right)


@pytest.mark.parametrize("zone", ["Asia/Tokyo", "Tokyo", "tokyo"])
def test_clock_accepts_zones_and_cities(zone: str) -> None:
    now = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
    assert tell_time(zone, now=now) == "Friday, 2026-01-02 12:04:05 JST"


def test_clock_rejects_unknown_zones() -> None:
    with pytest.raises(ValueError, match="unknown time zone"):
        tell_time("../etc")


@pytest.mark.parametrize(
    ("name", "arguments", "words"),
    [
        ("shell", "{}", "there is no tool 'shell'"),
        ("calculator", "{", "not a JSON object"),
        ("calculator", "{}", "'expression' is missing"),
        ("calculator", '{"expression": "1", "mode": "x"}', "unknown argument 'mode'"),
        ("calculator", '{"expression": "1/0"}', "division by zero"),
    ],
)
def test_invalid_tool_call_returns_an_error_result(name: str, arguments: str, words: str) -> None:
    result = run_call(ToolCallPart(id="c", name=name, arguments=arguments))
    assert result.is_error
    assert words in result.text


def test_every_offered_tool_runs() -> None:
    arguments = {"calculator": '{"expression": "6*7"}', "get_time": "{}"}
    results = [
        run_call(ToolCallPart(id="c", name=tool.name, arguments=arguments[tool.name])) for tool in DEMO_TOOLS
    ]
    assert [result.is_error for result in results] == [False, False]
    assert results[0].text == "42"
