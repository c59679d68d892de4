"""`mlxctl bench compare`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
FailIf = Annotated[
    list[str] | None,
    typer.Option(
        metavar="CONDITION",
        help="Exit with 1 when this is so, beyond noise; may be repeated.  [default: never]",
    ),
]


@app.command(epilog="Example: mlxctl bench compare before.json after.json --fail-if 'ttft_p50>+10%'")
def compare(
    a: Annotated[Path, typer.Argument(metavar="A", help="A stored result: how it was.")],
    b: Annotated[Path, typer.Argument(metavar="B", help="Another of the same measurement: how it is.")],
    fail_if: FailIf = None,
    as_json: Annotated[
        bool, typer.Option("--json", help="Print the comparison as JSON and nothing else.")
    ] = False,
) -> None:
    """Compare two stored results; fail when a figure got worse.

    A condition is FIGURE>+10% or FIGURE<-5% for a change, FIGURE>200ms or FIGURE<50 for the new value. A
    change counts when nine of ten pairs of rounds agree on its direction, and needs three rounds on each
    side; what is less than that is noise.
    """
    with plain_failures():
        from mlxctl.cli.bench.comparing import run_compare

        raise typer.Exit(run_compare(a, b, fail_if or [], as_json=as_json))
