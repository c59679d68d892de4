"""Sample results for comparison and report tests."""

from typing import Any

from mlxctl.bench.figures import Spread
from mlxctl.bench.result import (
    Ceiling,
    ClientCost,
    EngineFacts,
    MeasuredServer,
    Measurement,
    PairedRatio,
    Result,
)
from mlxctl.bench.scenarios import Chart, Latency, Scenario, Throughput

_FACTS: dict[str, Any] = {
    "num_parameters": 8_190_735_360,
    "number_format": "4-bit",
    "version": "0.1.0",
    "engine": EngineFacts(backend="metal", device="Apple M4 Pro", blas="native", mlx_version="0.32.4"),
}
# Other servers tell nothing.
_SERVERS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("mlxctl serve", _FACTS),
    ("http://127.0.0.1:8081/v1", {}),
)
LATENCY = Latency()
THROUGHPUT = Throughput(streams=(1, 8))


def sample_result(
    *rounds: dict[str, tuple[float, ...]],
    scenario: Scenario = LATENCY,
    problem: str | None = None,
    ceiling: Ceiling | None = None,
) -> Result:
    """Return a result with these values for A (and B)."""
    figures = {figure.name: figure for figure in scenario.figures}
    labeled = list(zip("AB", rounds, strict=False))
    num_rounds = max(len(values) for values in rounds[0].values())
    return Result(
        scenario=scenario.name,
        started="2026-11-21T12:00:00+00:00",
        is_partial=problem is not None,
        problem=problem,
        num_rounds=num_rounds,
        num_rounds_wanted=num_rounds + (problem is not None),
        settings={"seed": 1, "nonce": "0", "num_warmups": 1, "serve_arguments": [[]], **scenario.settings},
        environment={
            "mlxctl": "0.1.0",
            "commit": "abc1234",
            "platform": "macOS-26.0-arm64",
            "chip": "Apple M4 Pro",
            "num_cores": 14,
            "memory_bytes": 48 * 1024**3,
            "load_average": 1.5,
            "python": "3.12.1",
            "packages": {"mlx": "0.32.4", "mlx-lm": "0.32.2"},
        },
        servers=tuple(
            MeasuredServer(
                label=label,
                name=name,
                url="http://127.0.0.1:8080/v1",
                model="org/model-4bit",
                context_length=32768,
                **facts,
            )
            for (label, _), (name, facts) in zip(labeled, _SERVERS, strict=False)
        ),
        measurements=tuple(
            Measurement.of(label, figures[name], values)
            for label, figure in labeled
            for name, values in figure.items()
        ),
        ratios=_ratios(*rounds) if len(rounds) > 1 else (),
        charts=tuple(Chart(title=chart.title, bars=chart.bars) for chart in scenario.charts),
        client=ClientCost(
            cpu_seconds=0.5,
            wall_seconds=40.0,
            num_tokens=24_000,
            core_share=0.0125,
            per_thousand=0.0208,
            was_bottleneck=False,
        ),
        ceiling=ceiling,
        notes=("A: with 20 requests a round, p99 is the slowest of them",),
    )


def _ratios(a: dict[str, tuple[float, ...]], b: dict[str, tuple[float, ...]]) -> tuple[PairedRatio, ...]:
    spreads = {name: Spread.of_ratios(a[name], b[name]) for name in a if name in b}
    return tuple(
        PairedRatio(name=name, ratio=spread, is_noise=spread.covers_one) for name, spread in spreads.items()
    )


FAST = {
    "ttft_p50": (0.031, 0.030, 0.033, 0.031, 0.032),
    "ttft_p95": (0.044, 0.041, 0.043, 0.047, 0.042),
    "itl_p50": (0.0051, 0.0052, 0.0050, 0.0051, 0.0053),
    "request_p50": (1.21, 1.19, 1.22, 1.2, 1.25),
}
SLOW = {
    "ttft_p50": (0.062, 0.061, 0.064, 0.066, 0.063),
    "ttft_p95": (0.043, 0.045, 0.041, 0.049, 0.040),
    "itl_p50": (0.0049, 0.0048, 0.0049, 0.0050, 0.0047),
    "request_p50": (1.3, 1.4, 1.35, 1.32, 1.41),
}
RATES = {
    "prompt_tokens_per_second": (812.0, 830.0, 825.0),
    "decode_tokens_per_second_x1": (61.2, 60.8, 61.5),
    "tokens_per_second_x1": (59.0, 58.8, 59.4),
    "decode_tokens_per_second_x8": (301.0, 298.0, 305.0),
    "tokens_per_second_x8": (280.0, 277.0, 284.0),
}
CEILING = Ceiling(
    tokens_per_second=71.4,
    context_tokens=512,
    bandwidth_bytes_per_second=273e9,
    source="published for Apple M4 Pro",
)
