"""What `mlxctl bench compare` works out and prints."""

import json
from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer
from rich.table import Table
from rich.text import Text

from mlxctl.bench.comparison import Comparison, compare_results
from mlxctl.bench.conditions import Condition, ConditionResult
from mlxctl.bench.formatting import format_like, format_value
from mlxctl.bench.result import load_result
from mlxctl.cli.bench.tables import ROOM_FOR_MEANINGS, print_document, standard_output, table_of_figures

_STYLES = {"better": "green", "worse": "red", "same": "dim", "noise": "dim"}


def run_compare(a: Path, b: Path, conditions: Sequence[str], *, as_json: bool) -> int:
    """Print the comparison and return the exit code.

    Raises SettingsError for files and conditions that cannot be used.
    """
    parsed = [Condition.parse(text) for text in conditions]
    comparison = compare_results(load_result(a), load_result(b))
    verdicts = [condition.check(comparison) for condition in parsed]
    if as_json:
        typer.echo(_document(a, b, comparison, verdicts))
    else:
        _print(comparison, verdicts)
        print_document(_summary(comparison, verdicts))
    return int(any(verdict.fails for verdict in verdicts))


def comparison_table(comparison: Comparison, *, has_meanings: bool) -> Table:
    """Return the figures of both, how they moved, and whether that means anything."""
    table = table_of_figures("A", "B", "change")
    table.add_column("", no_wrap=True)
    if has_meanings:
        table.add_column("", style="dim")
    for change in comparison.changes:
        moved = "–" if change.change is None else f"{change.change:+.1%}"
        verdict = Text(change.verdict, style=_STYLES[change.verdict])
        after = format_like(change.after, change.before, change.unit)
        row: list[str | Text] = [change.name, format_value(change.before, change.unit), after, moved, verdict]
        table.add_row(*row, *([change.meaning] if has_meanings else []))
    return table


def _print(comparison: Comparison, verdicts: Sequence[ConditionResult]) -> None:
    console = standard_output()
    console.print(Text(comparison.scenario, style="bold"))
    console.print()
    console.print(comparison_table(comparison, has_meanings=console.width >= ROOM_FOR_MEANINGS))
    console.print()
    for verdict in verdicts:
        console.print(
            Text(verdict.line, style="bold red" if verdict.fails else "dim" if verdict.is_noise else "green")
        )
    for note in comparison.notes:
        console.print(Text(note, style="yellow"))


def _summary(comparison: Comparison, verdicts: Sequence[ConditionResult]) -> str:
    moved = {
        way: [change.name for change in comparison.changes if change.verdict == way]
        for way in ("better", "worse")
    }
    return json.dumps({"scenario": comparison.scenario, **moved, "failed": _failed(verdicts)})


def _failed(verdicts: Sequence[ConditionResult]) -> list[str]:
    return [verdict.condition.text for verdict in verdicts if verdict.fails]


def _document(a: Path, b: Path, comparison: Comparison, verdicts: Sequence[ConditionResult]) -> str:
    document = {"a": str(a), "b": str(b), **msgspec.to_builtins(comparison), "failed": _failed(verdicts)}
    return msgspec.json.encode(document).decode()
