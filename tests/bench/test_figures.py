"""Medians, paired ratios and the noise test."""

import pytest

from mlxctl.bench.figures import Figure, Spread, percentile, percentiles
from mlxctl.bench.formatting import client_line, format_like, format_value, ratio_verdict, sparkline
from mlxctl.bench.runner import Rounds, measurements, paired_ratios
from mlxctl.bench.scenarios import Latency


def test_percentiles_are_measured_values() -> None:
    values = [float(number) for number in range(100, 0, -1)]
    assert percentile(values, 0.5) == 51
    assert percentiles("ttft", values) == {"ttft_p50": 51.0, "ttft_p95": 96.0, "ttft_p99": 100.0}
    assert percentiles("ttft", []) == {}


def rounds(a: list[float], b: list[float]) -> Rounds:
    return Rounds(
        samples={"A": [{"ttft_p50": value} for value in a], "B": [{"ttft_p50": value} for value in b]}
    )


@pytest.mark.parametrize(
    ("a", "b", "verdict"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.2, 2.4], "A is better"),
        ([2.0, 2.2, 2.4], [1.0, 1.1, 1.2], "B is better"),
        ([1.0, 1.1, 1.2], [1.1, 1.0, 1.3], "noise"),
        ([1.0, 1.1], [2.0, 2.2], "noise"),
        ([1.001, 1.101, 1.201], [1.0, 1.1, 1.2], "noise"),
    ],
)
def test_ratio_counts_with_three_agreeing_rounds(a: list[float], b: list[float], verdict: str) -> None:
    (ratio,) = paired_ratios(Latency(), rounds(a, b))
    assert ratio.name == "ttft_p50"
    assert ratio_verdict(ratio.ratio, "lower", is_noise=ratio.is_noise) == verdict


def test_common_drift_does_not_change_the_ratio() -> None:
    (ratio,) = paired_ratios(Latency(), rounds([1.0, 5.0, 9.0], [2.0, 10.0, 18.0]))
    assert ratio.ratio == Spread(median=0.5, lowest=0.5, highest=0.5)


def test_figure_without_samples_is_omitted() -> None:
    (found,) = measurements(
        Latency().figures, Rounds(samples={"A": [{"itl_p50": 0.1}, {}, {"itl_p50": 0.3}]})
    )
    assert (found.name, found.rounds, found.median) == ("itl_p50", (0.1, 0.3), 0.2)


def test_figure_names_of_a_scenario_are_unique() -> None:
    figures: tuple[Figure, ...] = Latency().figures
    assert len({figure.name for figure in figures}) == len(figures)


def test_numbers_are_formatted_with_units() -> None:
    assert [format_value(0.0381, "s"), format_value(2.5, "s"), format_value(0.5, "share")] == [
        "38.1 ms",
        "2.50 s",
        "50.0%",
    ]
    assert [format_value(1234.5, "tokens/s"), format_value(3.14, "times")] == ["1,234 tok/s", "3.14 ×"]
    assert [format_like(1.25, 0.9, "s"), format_like(0.25, 1.9, "s")] == ["1,250.0", "0.25"]
    assert sparkline((1.0, 0.0, 0.5)) == "█▁▅"
    assert sparkline((*[1.0] * 500, *[0.0] * 500)) == "█████▁▁▁▁▁"


@pytest.mark.parametrize(
    ("cpu_seconds", "words"),
    [(8.0, "it was the bottleneck: the server may be faster"), (0.2, "not the bottleneck")],
)
def test_saturated_client_is_reported_as_bottleneck(cpu_seconds: float, words: str) -> None:
    cost = Rounds(samples={"A": []}, cpu_seconds=cpu_seconds, wall_seconds=10.0, num_tokens=10_000).client
    assert cost.core_share == cpu_seconds / 10
    assert cost.per_thousand == cpu_seconds / 10
    assert words in client_line(cost)
