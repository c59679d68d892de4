"""`mlxctl bench compare`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.terminal_text import echo

app = create_app()
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Exit with 1 when this condition is true, beyond noise; may be repeated.  [default: never]",
    ),
]


@app.command(epilog="Example: mlxctl bench compare before.json after.json --fail-if 'ttft_p50>+10%'")
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="Stored result of the first run.")],
    b: Annotated[
        Path, typer.Argument(metavar="B", help="Stored result of the second run, of the same scenario.")
    ],
    fail_if: FailIf = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON and nothing else.")
    ] = False,
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
        from mlxctl.cli.bench.comparison import comparison_json, print_comparison

        conditions = [Condition.parse(text) for text in fail_if or []]
        comparison = compare_results(load_result(a), load_result(b))
        verdicts = [condition.check(comparison) for condition in conditions]
    if as_json:
        echo(comparison_json(a, b, comparison, verdicts))
    else:
        print_comparison(comparison, verdicts)
    raise typer.Exit(int(any(verdict.fails for verdict in verdicts)))
