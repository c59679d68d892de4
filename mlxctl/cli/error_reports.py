"""Errors of a command.

One line on standard error and exit code 1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from mlxctl.errors import MlxctlError, ServerUnreachable


@contextmanager
def report_errors() -> Iterator[None]:
    """Print a MlxctlError without a stack trace and exit with 1."""
    try:
        yield
    except MlxctlError as error:
        hint = (
            "; `mlxctl serve` starts one, --url names another" if isinstance(error, ServerUnreachable) else ""
        )
        typer.echo(f"mlxctl: {error}{hint}", err=True)
        raise typer.Exit(1) from None
