"""`mlxctl demo`: what has to do with the built-in model."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures

app = typer.Typer(
    rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, no_args_is_help=True
)


@app.callback()
def demo() -> None:
    """Rebuild the tiny built-in demo model."""


@app.command(epilog="Example: mlxctl demo train --out ./my-demo/model")
def train(
    out: Annotated[
        Path | None, typer.Option(metavar="DIRECTORY", help="Where to write it, instead of its own place.")
    ] = None,
    seed: Annotated[
        int | None, typer.Option(metavar="NUMBER", help="Another seed than that of the shipped model.")
    ] = None,
    quick: Annotated[bool, typer.Option("--quick", help="A few steps only, to see that it runs.")] = False,
) -> None:
    """Train the built-in demo model from its recipe. Takes several minutes; reproducible by seed."""
    with plain_failures():
        from mlxctl.bootstrap.demo_recipe import train_demo

        train_demo(directory=out, seed=seed, is_quick=quick)
