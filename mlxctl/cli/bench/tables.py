"""Benchmark results on the terminal: tables, bars, and notes."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.table import Table
from rich.text import Text

from mlxctl.bench.comparison import Comparison
from mlxctl.bench.conditions import ConditionResult
from mlxctl.bench.formatting import (
    ceiling_line,
    client_line,
    format_like,
    format_value,
    machine_line,
    ratio_verdict,
    server_line,
    sparkline,
    state_line,
)
from mlxctl.bench.result import Measurement, Result
from mlxctl.bench.scenarios import Chart
from mlxctl.cli.console import console as wide_console
from mlxctl.terminal_text import echo, escape_line

_WIDE = 120
# Narrower terminals get no description of each figure.
ROOM_FOR_MEANINGS = 100
_BAR_COLUMNS = 32
_STYLES = {"A": "cyan", "B": "magenta"}


def table_console() -> Console:
    """Return the console for tables.

    Standard output where it is a terminal. Elsewhere standard error, because standard output is JSON, and
    wide enough for every column.
    """
    return wide_console(width=_WIDE, stderr=not sys.stdout.isatty())


def print_result(result: Result, out: Path, console: Console) -> None:
    """Print server, figures, charts and notes."""
    _print_head(console, result)
    has_room = console.width >= ROOM_FOR_MEANINGS
    console.print(
        pair_table(result, has_meanings=has_room)
        if result.ratios
        else figure_table(result, has_meanings=has_room)
    )
    for chart in result.charts:
        if lines := bars(result, chart):
            console.print()
            console.print(lines)
    console.print()
    for line in filter(
        None, (client_line(result.client), ceiling_line(result), *result.notes, f"stored in {out}")
    ):
        console.print(_line(line), style="yellow" if "bottleneck:" in line else "dim", soft_wrap=False)


def print_summary(document: Mapping[str, Any]) -> None:
    """Print the document as one line of JSON unless on a terminal."""
    if not sys.stdout.isatty():
        echo(json.dumps(document))


def table_of_figures(*headings: str) -> Table:
    """Return an empty table.

    Figure names, which wrap, and a column per heading.
    """
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("figure", overflow="fold")
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def figure_table(result: Result, *, has_meanings: bool) -> Table:
    """Return the figures of one server.

    Each row has the unit of its median.
    """
    table = table_of_figures("median", "lowest", "highest")
    table.add_column("rounds", no_wrap=True)
    if has_meanings:
        table.add_column("", style="dim")
    for found in _shown(result, "A"):
        low, high = (format_like(value, found.median, found.unit) for value in (found.lowest, found.highest))
        row = [found.name, format_value(found.median, found.unit), low, high, sparkline(found.rounds)]
        table.add_row(*row, *([found.meaning] if has_meanings else []))
    return table


def pair_table(result: Result, *, has_meanings: bool) -> Table:
    """Return figures of both servers, their ratio, and the better one.

    A row has the unit of the first server's median.
    """
    table = table_of_figures("A", "B", "A/B", "spread")
    table.add_column("better", no_wrap=True)
    if has_meanings:
        table.add_column("", style="dim")
    ratios = {ratio.name: ratio for ratio in result.ratios}
    for found in _shown(result, "A"):
        other, ratio = result.find(found.name, "B"), ratios.get(found.name)
        if other is None or ratio is None:
            continue
        verdict = ratio_verdict(ratio.ratio, found.better, is_noise=ratio.is_noise)
        table.add_row(
            found.name,
            format_value(found.median, found.unit),
            format_like(other.median, found.median, found.unit),
            f"{ratio.ratio.median:.2f}",
            f"{ratio.ratio.lowest:.2f}–{ratio.ratio.highest:.2f}",
            Text(verdict.partition(" ")[0], style="dim" if ratio.is_noise else _STYLES[verdict[0]]),
            *([found.meaning] if has_meanings else []),
        )
    return table


def bars(result: Result, chart: Chart) -> Table | None:
    """Return the chart as bars of characters; None without measurements."""
    rows = [
        (label, server.label, found)
        for label, name in chart.bars
        for server in result.servers
        if (found := result.find(name, server.label))
    ]
    if not rows:
        return None
    top = max(found.median for _, _, found in rows) or 1.0
    table = Table(
        title=chart.title,
        title_justify="left",
        title_style="bold",
        box=None,
        pad_edge=False,
        show_header=False,
    )
    for label, server, found in rows:
        bar = Text(_bar(found.median / top), style=_STYLES[server])
        mark = f"{label} {server}" if len(result.servers) > 1 else label
        table.add_row(mark, bar, format_value(found.median, found.unit))
    return table


def _bar(share: float) -> str:
    eighths = round(share * _BAR_COLUMNS * 8)
    return "█" * (eighths // 8) + " ▏▎▍▌▋▊▉"[eighths % 8].strip()


def _print_head(console: Console, result: Result) -> None:
    state = state_line(result)
    title = Text.assemble((result.scenario, "bold"), f"  {escape_line(state)}")
    console.print(title, style="yellow" if result.is_partial else "")
    for server in result.servers:
        console.print(_line(f"{server.label}  {server.model}, {server.name}", style=_STYLES[server.label]))
        if facts := server_line(server):
            console.print(_line(facts, style="dim"))
    console.print(Text(machine_line(result), style="dim"))
    console.print()


def _line(text: str, *, style: str = "") -> Text:
    """Return one line, with names that a server tells."""
    return Text(escape_line(text), style=style)


def _shown(result: Result, target: str) -> list[Measurement]:
    return [found for found in result.measurements if found.target == target and not found.is_detail]


_CHANGE_STYLES = {"better": "green", "worse": "red", "same": "dim", "noise": "dim"}


def comparison_table(comparison: Comparison, *, has_meanings: bool) -> Table:
    """Return both figures, their change, and whether it is noise."""
    table = table_of_figures("A", "B", "change")
    table.add_column("", no_wrap=True)
    if has_meanings:
        table.add_column("", style="dim")
    for change in comparison.changes:
        moved = "–" if change.change is None else f"{change.change:+.1%}"
        verdict = Text(change.verdict, style=_CHANGE_STYLES[change.verdict])
        after = format_like(change.after, change.before, change.unit)
        row: list[str | Text] = [change.name, format_value(change.before, change.unit), after, moved, verdict]
        table.add_row(*row, *([change.meaning] if has_meanings else []))
    return table


def print_comparison(comparison: Comparison, verdicts: Sequence[ConditionResult]) -> None:
    """Print table, condition results and notes.

    Without a terminal they go to standard error, and one line of JSON to standard output.
    """
    console = table_console()
    console.print(Text(comparison.scenario, style="bold"))
    console.print()
    console.print(comparison_table(comparison, has_meanings=console.width >= ROOM_FOR_MEANINGS))
    console.print()
    for verdict in verdicts:
        console.print(
            Text(verdict.line, style="bold red" if verdict.fails else "dim" if verdict.is_noise else "green")
        )
    for note in comparison.notes:
        console.print(Text(escape_line(note), style="yellow"))
    moved = {
        way: [change.name for change in comparison.changes if change.verdict == way]
        for way in ("better", "worse")
    }
    print_summary({"scenario": comparison.scenario, **moved, "failed": _failed(verdicts)})


def _failed(verdicts: Sequence[ConditionResult]) -> list[str]:
    return [verdict.condition.text for verdict in verdicts if verdict.fails]


def comparison_json(a: Path, b: Path, comparison: Comparison, verdicts: Sequence[ConditionResult]) -> str:
    """Return the comparison as a JSON document."""
    document = {"a": str(a), "b": str(b), **msgspec.to_builtins(comparison), "failed": _failed(verdicts)}
    return msgspec.json.encode(document).decode()
