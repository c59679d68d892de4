"""`mlxctl bench compare` and `report`: stored results."""

from pathlib import Path
from typing import Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.parameters import Argument, Option
from mlxctl.state import locations
from mlxctl.terminal_text import echo

FailIf = Annotated[
    list[str] | None,
    Option(
        metavar="CONDITION",
        help="Exit with 1 when this condition is true, beyond noise; may be repeated.  [default: never]",
    ),
]


@command(epilog="Example: mlxctl bench compare before.json after.json --fail-if 'ttft_p50>+10%'")
def compare(
    a: Annotated[Path, Argument(metavar="A", offers="file", help="Stored result of the first run.")],
    b: Annotated[
        Path,
        Argument(metavar="B", offers="file", help="Stored result of the second run, of the same scenario."),
    ],
    fail_if: FailIf = None,
    as_json: Annotated[bool, Option("--json", help="Print the comparison as JSON and nothing else.")] = False,
) -> None:
    """Compare two stored results; fail when a figure got worse.

    A condition is FIGURE>+10% or FIGURE<-5% for a change, FIGURE>200ms or FIGURE<50 for the new value. A
    change counts when nine of ten pairs of rounds agree on its direction, and needs three rounds on each
    side; anything less is noise.
    """
    with report_errors():
        from mlxctl.bench.comparison import compare_results
        from mlxctl.bench.conditions import Condition
        from mlxctl.bench.result import load_result
        from mlxctl.cli.bench.tables import comparison_json, print_comparison

        conditions = [Condition.parse(text) for text in fail_if or []]
        comparison = compare_results(load_result(a), load_result(b))
        verdicts = [condition.check(comparison) for condition in conditions]
    if as_json:
        echo(comparison_json(a, b, comparison, verdicts))
    else:
        print_comparison(comparison, verdicts)
    raise click.exceptions.Exit(int(any(verdict.fails for verdict in verdicts)))


@command(epilog="Example: mlxctl bench report first.json second.json --out speed")
def report(
    files: Annotated[
        list[Path] | None,
        Argument(metavar="[FILE...]", help="Stored results.  [default: all in ~/.local/state/mlxctl/bench]"),
    ] = None,
    out: Annotated[
        Path | None,
        Option(
            metavar="DIRECTORY",
            help="Directory of the page and its images.  [default: ~/.local/state/mlxctl/bench/report]",
        ),
    ] = None,
) -> None:
    """Render stored results as Markdown with SVG charts."""
    with report_errors():
        from mlxctl.bench.report import make_report
        from mlxctl.bench.result import load_result
        from mlxctl.ir.errors import SettingsError

        directory = locations.bench_directory()
        found = files or sorted(directory.glob("*-*.json"))
        if not found:
            raise SettingsError(
                f"there is no stored result in {str(directory)!r}; name files, or run `mlxctl bench latency`"
            )
        page = make_report([(file.name, load_result(file)) for file in found]).save(
            out or directory / "report"
        )
        echo(f"{len(found)} {'result' if len(found) == 1 else 'results'} in {page}")
