"""Errors of a command.

One line on standard error; exit code 2 for a wrong call, else 1.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import click

from mlxctl.ir.errors import MlxctlError, ServerUnreachable, UsageError
from mlxctl.terminal_text import echo

INTERRUPTED = 130
"""The exit code after Ctrl-C."""


@contextmanager
def report_errors(describe: Callable[[str], str] = "mlxctl: {}".format) -> Iterator[None]:
    """Print an expected error without a stack trace and exit.

    A MlxctlError, or a file or directory that the user may not use.

    `describe` returns the line of a message.
    """
    try:
        yield
    except MlxctlError as error:
        hint = (
            "; `mlxctl serve` starts one, --url names another" if isinstance(error, ServerUnreachable) else ""
        )
        echo(describe(f"{error}{hint}"), err=True)
        # As the parser ends for what it rejects.
        raise click.exceptions.Exit(2 if isinstance(error, UsageError) else 1) from None
    except PermissionError as error:
        # Any path that the user gives may be below a directory that the user cannot enter.
        if error.filename is None:
            raise
        echo(describe(f"cannot use {error.filename!r}: {error.strerror}"), err=True)
        raise click.exceptions.Exit(1) from None
