"""Errors of a command.

One line on standard error and exit code 1.
"""

from collections.abc import Iterator
from contextlib import contextmanager

import typer

from mlxctl.errors import MlxctlError


@contextmanager
def report_errors() -> Iterator[None]:
    """Print a MlxctlError without a stack trace and exit with 1."""
    try:
        yield
    except MlxctlError as error:
        typer.echo(f"mlxctl: {error}", err=True)
        raise typer.Exit(1) from None
