"""Comparison of stored results and failure conditions."""

import dataclasses

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.bench.comparison import compare_results, is_noise
from mlxctl.bench.conditions import Condition
from mlxctl.ir.errors import SettingsError
from tests.bench.sample_results import FAST, RATES, THROUGHPUT, sample_result

BEFORE = sample_result(
    {"ttft_p50": (0.100, 0.101, 0.102, 0.103, 0.104), "itl_p50": (0.010, 0.012, 0.011, 0.013, 0.012)}
)
AFTER = sample_result(
    {"ttft_p50": (0.120, 0.121, 0.122, 0.123, 0.124), "itl_p50": (0.012, 0.011, 0.013, 0.011, 0.014)}
)
COMPARISON = compare_results(BEFORE, AFTER)


def test_consistent_change_counts_and_overlap_is_noise() -> None:
    ttft, itl = COMPARISON.changes
    assert (ttft.name, ttft.verdict) == ("ttft_p50", "worse")
    assert ttft.change == pytest.approx(0.122 / 0.102 - 1)
    assert (itl.name, itl.verdict) == ("itl_p50", "noise")


def test_lower_rate_is_worse() -> None:
    slower = {name: tuple(value * 0.8 for value in values) for name, values in RATES.items()}
    comparison = compare_results(
        sample_result(RATES, scenario=THROUGHPUT), sample_result(slower, scenario=THROUGHPUT)
    )
    assert {change.verdict for change in comparison.changes} == {"worse"}


def test_identical_results_compare_as_same() -> None:
    assert {change.verdict for change in compare_results(BEFORE, BEFORE).changes} == {"same"}


@given(
    st.lists(st.floats(0.1, 10), min_size=3, max_size=8), st.lists(st.floats(0.1, 10), min_size=3, max_size=8)
)
def test_noise_is_symmetric(one: list[float], other: list[float]) -> None:
    assert is_noise(one, other) == is_noise(other, one)
    assert not is_noise(one, [value + 100 for value in other])


def test_one_outlier_is_tolerated_but_two_rounds_are_noise() -> None:
    quick = [1.0 + number / 100 for number in range(10)]
    assert not is_noise([*quick[1:], 9.0], [value + 1 for value in quick])
    assert is_noise([1.0, 1.1], [2.0, 2.1])


@pytest.mark.parametrize(
    ("text", "fails"),
    [
        ("ttft_p50>+10%", True),
        ("ttft_p50 > 10%", True),
        ("ttft_p50>=+25%", False),
        ("ttft_p50<-5%", False),
        ("ttft_p50>110ms", True),
        ("ttft_p50>0.2s", False),
        ("ttft_p50<0.123", True),
        ("itl_p50>+1%", False),
        ("itl_p50>1ms", True),
    ],
)
def test_condition_fails_on_real_changes_and_on_values(text: str, fails: bool) -> None:
    verdict = Condition.parse(text).check(COMPARISON)
    assert verdict.fails == fails
    assert verdict.line.startswith("FAILED" if fails else ("ok", "noise"))
    assert verdict.condition.text in verdict.line


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("ttft_p50", "write FIGURE>"),
        ("ttft_p50=5", "write FIGURE>"),
        (">5%", "write FIGURE>"),
        ("ttft_p50>+10 percent", "write FIGURE>"),
        ("", "write FIGURE>"),
        ("ttft_p05>+10%", "did you mean ttft_p50?"),
        ("zzz>+10%", "there are ttft_p50, itl_p50"),
    ],
)
def test_invalid_condition_error_names_the_fix(text: str, words: str) -> None:
    with pytest.raises(SettingsError) as refused:
        Condition.parse(text).check(COMPARISON)
    assert words in str(refused.value)
    assert repr(text) in str(refused.value)


def test_duration_limit_on_a_rate_is_rejected() -> None:
    rates = sample_result(RATES, scenario=THROUGHPUT)
    with pytest.raises(SettingsError, match="measured in tokens/s"):
        Condition.parse("tokens_per_second_x1<50ms").check(compare_results(rates, rates))


@given(st.text(max_size=30))
def test_any_text_parses_or_raises_settings_error(text: str) -> None:
    try:
        condition = Condition.parse(text)
    except SettingsError:
        return
    assert condition.name in text
    assert condition.text == text.strip()


def test_different_scenarios_cannot_be_compared() -> None:
    with pytest.raises(SettingsError, match="different measurements"):
        compare_results(BEFORE, sample_result(RATES, scenario=THROUGHPUT))
    with pytest.raises(SettingsError, match="no figure in common"):
        compare_results(BEFORE, sample_result({"request_p50": FAST["request_p50"]}))


def test_comparison_notes_name_differences() -> None:
    other = dataclasses.replace(
        AFTER, settings={**AFTER.settings, "seed": 2}, is_partial=True, problem="interrupted"
    )
    notes = compare_results(BEFORE, other).notes
    assert notes == ("B is partial: 5 of 5 rounds (interrupted)", "setting seed differs: 1 in A, 2 in B")


def test_comparison_notes_name_another_backend_and_other_weights() -> None:
    (server,) = AFTER.servers
    changed = dataclasses.replace(
        server, number_format="8-bit", engine=dataclasses.replace(server.engine, backend="cpu")
    )
    notes = compare_results(BEFORE, dataclasses.replace(AFTER, servers=(changed,))).notes
    assert notes == (
        "server's number format differs: 4-bit in A, 8-bit in B",
        "server's backend differs: metal in A, cpu in B",
    )
