"""How a command fails: what a person can mend is one line on standard error and exit code 1, without a stack
trace.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from mlxctl.errors import MlxctlError


@contextmanager
def plain_failures() -> Iterator[None]:
    """Turn the errors of the house into their line."""
    try:
        yield
    except MlxctlError as error:
        typer.echo(f"mlxctl: {error}", err=True)
        raise typer.Exit(1) from None
