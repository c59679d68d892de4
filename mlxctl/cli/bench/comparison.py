"""Tables and JSON of `mlxctl bench compare`."""

from collections.abc import Sequence
from pathlib import Path

import msgspec
from rich.table import Table
from rich.text import Text

from mlxctl.bench.comparison import Comparison
from mlxctl.bench.conditions import ConditionResult
from mlxctl.bench.formatting import format_like, format_value
from mlxctl.cli.bench.tables import ROOM_FOR_MEANINGS, print_summary, table_console, table_of_figures
from mlxctl.terminal_text import escape_line

_STYLES = {"better": "green", "worse": "red", "same": "dim", "noise": "dim"}


def comparison_table(comparison: Comparison, *, has_meanings: bool) -> Table:
    """Return both figures, their change, and whether it is noise."""
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
