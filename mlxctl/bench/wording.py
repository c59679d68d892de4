"""Numbers and verdicts as people read them; the table, the report and the comparison say them alike."""

from typing import assert_never

from mlxctl.bench.figures import Better, Spread, Unit
from mlxctl.bench.result import ClientCost, Result

_TICKS = "▁▂▃▄▅▆▇█"


def say(value: float, unit: Unit) -> str:
    """Return the value with its unit."""
    match unit:
        case "s":
            return f"{value * 1e3:,.1f} ms" if abs(value) < 1 else f"{value:,.2f} s"
        case "share":
            return f"{value:.1%}"
        case "times":
            return f"{value:,.2f} ×"
        case "tokens/s" | "requests/s" | "tokens":
            return f"{value:,.1f} {unit}" if abs(value) < 100 else f"{value:,.0f} {unit}"
        case _:
            assert_never(unit)


def sparkline(values: tuple[float, ...]) -> str:
    """Return one tick for each value, from nothing to the highest, so that the height of the ticks can be trusted."""
    top = max(values) or 1.0
    return "".join(_TICKS[min(7, max(0, round(value / top * 7)))] for value in values)


def ratio_verdict(ratio: Spread, better: Better, *, is_noise: bool) -> str:
    """Say what A over B means, A being in front."""
    if is_noise:
        return "noise"
    is_ahead = ratio.median > 1 if better == "higher" else ratio.median < 1
    return "A is better" if is_ahead else "B is better"


def client_line(client: ClientCost) -> str:
    """Say what measuring cost, and whether it was in the way."""
    rate = f", {client.per_thousand:.1%} for each 1,000 tokens/s" if client.per_thousand is not None else ""
    verdict = "it was the bottleneck: the server may be faster than this" if client.was_bottleneck else "it was not the bottleneck"
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
