"""Text for numbers and verdicts in tables, reports and comparisons."""

import statistics
from itertools import pairwise
from typing import assert_never

from mlxctl.bench.figures import Better, Spread, Unit
from mlxctl.bench.result import ClientCost, MeasuredServer, Result
from mlxctl.library.weights import format_parameters

_TICKS = "▁▂▃▄▅▆▇█"
_MAX_TICKS = 10
_SHORT_UNITS = {"tokens/s": "tok/s", "requests/s": "req/s", "times": "×"}


def format_value(value: float, unit: Unit) -> str:
    """Return the value with its unit."""
    number = format_like(value, value, unit)
    match unit:
        case "s":
            return f"{number} {'ms' if abs(value) < 1 else 's'}"
        case "share":
            return number
        case _:
            return f"{number} {_SHORT_UNITS.get(unit, unit)}"


def format_like(value: float, first: float, unit: Unit) -> str:
    """Return the number in the unit in which `first` is shown."""
    match unit:
        case "s":
            return f"{value * 1e3:,.1f}" if abs(first) < 1 else f"{value:,.2f}"
        case "share":
            return f"{value:.1%}"
        case "times":
            return f"{value:,.2f}"
        case "tokens/s" | "requests/s" | "jobs/h" | "tokens":
            return f"{value:,.1f}" if abs(first) < 100 else f"{value:,.0f}"
        case _:
            assert_never(unit)


def sparkline(values: tuple[float, ...]) -> str:
    """Return one tick per value, scaled from zero to the maximum.

    More values than fit are reduced to medians of neighbors.
    """
    num_ticks = min(len(values), _MAX_TICKS)
    edges = [len(values) * number // num_ticks for number in range(num_ticks + 1)]
    middles = [statistics.median(values[begin:end]) for begin, end in pairwise(edges)]
    top = max(middles) or 1.0
    return "".join(_TICKS[min(7, max(0, round(value / top * 7)))] for value in middles)


def ratio_verdict(ratio: Spread, better: Better, *, is_noise: bool) -> str:
    """Return the meaning of a ratio A over B."""
    if is_noise:
        return "noise"
    is_ahead = ratio.median > 1 if better == "higher" else ratio.median < 1
    return "A is better" if is_ahead else "B is better"


def client_line(client: ClientCost) -> str:
    """Describe the client's cost and whether it was the bottleneck."""
    rate = f", {client.per_thousand:.1%} for each 1,000 tokens/s" if client.per_thousand is not None else ""
    verdict = (
        "it was the bottleneck: the server may be faster than this"
        if client.was_bottleneck
        else "it was not the bottleneck"
    )
    return f"the client took {client.core_share:.1%} of a core{rate}; {verdict}"


def ceiling_line(result: Result) -> str | None:
    """Describe one stream's rate relative to the predicted ceiling; else None."""
    ceiling, reached = result.ceiling, result.find("decode_tokens_per_second_x1")
    if ceiling is None:
        return None
    bandwidth = f"{ceiling.bandwidth_bytes_per_second / 1e9:,.0f} GB/s, {ceiling.source}"
    line = f"predicted ceiling of one stream: {ceiling.tokens_per_second:,.0f} tokens/s ({bandwidth})"
    return f"{line}; reached {reached.median / ceiling.tokens_per_second:.0%}" if reached else line


def server_line(server: MeasuredServer) -> str:
    """Describe the model's weights and what computes with them; empty if unknown."""
    number, engine = server.num_parameters, server.engine
    words = [f"{format_parameters(number)} parameters"] if number else []
    words += [server.number_format] if server.number_format else []
    words += [f"mlxctl {server.version}"] if server.version else []
    words += [f"MLX {engine.mlx_version}"] if engine.mlx_version else []
    words += [f"{engine.backend} backend"] if engine.backend else []
    words += [engine.device] if engine.device else []
    # The other libraries belong to the system, or to MLX.
    words += ["OpenBLAS"] if engine.blas == "openblas" else []
    return ", ".join(words)


def machine_line(result: Result) -> str:
    """Describe the client's machine and versions."""
    facts = result.environment
    packages = ", ".join(
        f"{name} {version}" for name, version in facts.get("packages", {}).items() if version
    )
    memory = f"{facts.get('memory_bytes', 0) / 1024**3:.0f} GiB"
    machine = f"{facts.get('chip')}, {facts.get('num_cores')} cores, {memory}, {facts.get('platform')}"
    commit = f" ({facts['commit']})" if facts.get("commit") else ""
    return f"{machine}; mlxctl {facts.get('mlxctl')}{commit}, {packages}; load {facts.get('load_average')}"


def state_line(result: Result) -> str:
    """Describe how many rounds were measured."""
    if not result.is_partial:
        return f"{result.num_rounds} round{'s' * (result.num_rounds != 1)}"
    return f"PARTIAL: {result.num_rounds} of {result.num_rounds_wanted} rounds ({result.problem})"
