"""Numbers and verdicts as people read them; the table, the report and the comparison say them alike."""

import statistics
from itertools import pairwise
from typing import assert_never

from mlxctl.bench.figures import Better, Spread, Unit
from mlxctl.bench.result import ClientCost, Result

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
    """Return only the number of a value that stands beside `first`, whose unit holds for both."""
    match unit:
        case "s":
            return f"{value * 1e3:,.1f}" if abs(first) < 1 else f"{value:,.2f}"
        case "share":
            return f"{value:.1%}"
        case "times":
            return f"{value:,.2f}"
        case "tokens/s" | "requests/s" | "tokens":
            return f"{value:,.1f}" if abs(first) < 100 else f"{value:,.0f}"
        case _:
            assert_never(unit)


def sparkline(values: tuple[float, ...]) -> str:
    """Return a tick for each value, from nothing to the highest, so that the height of the ticks can be
    trusted.

    Of more values than there is room for, each tick is the median of some neighbors.
    """
    num_ticks = min(len(values), _MAX_TICKS)
    edges = [len(values) * number // num_ticks for number in range(num_ticks + 1)]
    middles = [statistics.median(values[begin:end]) for begin, end in pairwise(edges)]
    top = max(middles) or 1.0
    return "".join(_TICKS[min(7, max(0, round(value / top * 7)))] for value in middles)


def ratio_verdict(ratio: Spread, better: Better, *, is_noise: bool) -> str:
    """Say what A over B means, A being in front."""
    if is_noise:
        return "noise"
    is_ahead = ratio.median > 1 if better == "higher" else ratio.median < 1
    return "A is better" if is_ahead else "B is better"


def client_line(client: ClientCost) -> str:
    """Say what measuring cost, and whether it was in the way."""
    rate = f", {client.per_thousand:.1%} for each 1,000 tokens/s" if client.per_thousand is not None else ""
    verdict = (
        "it was the bottleneck: the server may be faster than this"
        if client.was_bottleneck
        else "it was not the bottleneck"
    )
    return f"the client took {client.core_share:.1%} of a core{rate}; {verdict}"


def ceiling_line(result: Result) -> str | None:
    """Say how near one stream came to what the memory allows; None without a ceiling or a rate of one stream."""
    ceiling, reached = result.ceiling, result.find("decode_tokens_per_second_x1")
    if ceiling is None:
        return None
    bandwidth = f"{ceiling.bandwidth_bytes_per_second / 1e9:,.0f} GB/s, {ceiling.source}"
    line = f"predicted ceiling of one stream: {ceiling.tokens_per_second:,.0f} tokens/s ({bandwidth})"
    return f"{line}; reached {reached.median / ceiling.tokens_per_second:.0%}" if reached else line


def state_line(result: Result) -> str:
    """Say how much of what was wanted was measured."""
    if not result.is_partial:
        return f"{result.num_rounds} rounds"
    return f"PARTIAL: {result.num_rounds} of {result.num_rounds_wanted} rounds ({result.problem})"
