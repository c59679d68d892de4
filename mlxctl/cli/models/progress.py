"""The progress bar of commands that make a model."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

import typer

from mlxctl.terminal_text import echo

_INTERRUPTED = 130


@contextmanager
def byte_progress(title: str, *, is_quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Yield a function for the bytes that are done, and all.

    Ctrl-C ends the command.
    """
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeElapsedColumn

    from mlxctl.cli.console import console

    screen = console(stderr=True)
    try:
        with Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            DownloadColumn(),
            TimeElapsedColumn(),
            console=screen,
            disable=is_quiet or not screen.is_terminal,
            transient=True,
        ) as progress:
            task = progress.add_task(title, total=None)

            def update(done: int, total: int) -> None:
                progress.update(task, completed=min(done, total), total=total)

            yield update
    except KeyboardInterrupt:
        echo("mlxctl: stopped; nothing was kept", err=True)
        raise typer.Exit(_INTERRUPTED) from None
