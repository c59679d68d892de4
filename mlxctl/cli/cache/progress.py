"""A transient progress bar on standard error, on terminals only."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from mlxctl.cli.console import console


@contextmanager
def byte_bar(what: str, *, is_quiet: bool) -> Iterator[Callable[[int, int], None]]:
    """Show a progress bar on standard error.

    Call the yielded function with bytes done and bytes in total.
    """
    screen = console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
    )
    with Progress(
        *columns, console=screen, disable=is_quiet or not screen.is_terminal, transient=True
    ) as progress:
        task = progress.add_task(what, total=None)
        yield lambda num_done, num_bytes: progress.update(task, completed=num_done, total=num_bytes)
