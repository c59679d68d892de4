"""`mlxctl doctor`."""

import json
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import click
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlxctl.cli.commands import command
from mlxctl.cli.console import console
from mlxctl.cli.doctor import CheckResult, run_checks
from mlxctl.cli.parameters import Option
from mlxctl.terminal_text import echo

_MARKS = {"ok": ("✓", "green"), "advice": ("!", "yellow"), "broken": ("✗", "bold red")}
_NAME_COLUMNS = 12


@command(epilog="Example: mlxctl doctor --json")
def doctor(
    as_json: Annotated[bool, Option("--json", help="Print JSON instead of lines.")] = False,
) -> None:
    """Check this installation, and suggest fixes.

    Checks platform, packages, MLX, settings, memory, disks and port, then starts a server and sends requests
    to the demo model. Takes a few seconds. Exit code 1 when something is broken; advice alone does not change
    the exit code 0.
    """
    if as_json:
        results = list(run_checks())
        echo(json.dumps([asdict(result) for result in results], indent=2, ensure_ascii=False))
    else:
        results = print_results(run_checks())
    raise click.exceptions.Exit(int(any(result.verdict == "broken" for result in results)))


def print_results(results: Iterable[CheckResult]) -> list[CheckResult]:
    """Print each result as it comes, then a summary, and return all."""
    out = console()
    seen = []
    for result in results:
        if out.is_terminal:
            out.print(result_line(result))
            if result.remedy is not None:
                style = "dim" if result.verdict == "ok" else ""
                out.print(Padding(Text(result.remedy, style=style), (0, 0, 0, _NAME_COLUMNS + 2)))
        else:
            # A pipe has no width: each result is one line.
            remedy = f" -> {result.remedy}" if result.remedy is not None else ""
            line = f"{_MARKS[result.verdict][0]} {result.name:<{_NAME_COLUMNS - 1}} {result.facts}{remedy}"
            out.print(Text(line), soft_wrap=True)
        seen.append(result)
    out.print()
    out.print(summary(seen))
    return seen


def result_line(result: CheckResult) -> Table:
    """Return mark, name and facts as a grid.

    Long facts wrap in their column.
    """
    mark, style = _MARKS[result.verdict]
    table = Table.grid(padding=(0, 1))
    table.add_column(width=1)
    table.add_column(width=_NAME_COLUMNS - 1)
    table.add_column(overflow="fold")
    table.add_row(Text(mark, style=style), Text(result.name, style="bold"), Text(result.facts))
    return table


def summary(results: list[CheckResult]) -> Text:
    """Return the summary line."""
    broken = [result.name for result in results if result.verdict == "broken"]
    if broken:
        return Text(f"broken: {', '.join(broken)}", style="bold red")
    num_advices = sum(result.verdict == "advice" for result in results)
    advice = f"; advice on {num_advices} thing{'s' * (num_advices > 1)}" if num_advices else ""
    return Text(f"everything works{advice}", style="green")
