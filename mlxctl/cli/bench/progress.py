"""Progress of a benchmark on standard error.

A bar on a terminal, elsewhere lines.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from mlxctl.bench.runner import Observer
from mlxctl.cli.console import console
from mlxctl.terminal_text import echo

# Few updates: drawing takes CPU time from the measured processes.
_DRAWINGS_PER_SECOND = 4


@contextmanager
def progress_on(*, is_quiet: bool, num_rounds: int) -> Iterator[Observer]:
    """Yield the observer for standard error: silent, a bar, or lines."""
    if is_quiet:
        yield SilentObserver()
    elif sys.stderr.isatty():
        with _ProgressBar(num_rounds) as bar:
            yield bar
    else:
        yield _ProgressLines()


class SilentObserver:
    """An observer that prints nothing; base of the others."""

    def open(self, label: str, url: str | None) -> None: ...

    def begin(self, what: str, label: str) -> None: ...

    def end(self, what: str, label: str, *, is_last: bool) -> None: ...


class _ProgressLines(SilentObserver):
    def open(self, label: str, url: str | None) -> None:
        echo(f"{label}: {_describe_start(url)}", err=True)

    def end(self, what: str, label: str, *, is_last: bool) -> None:  # noqa: ARG002
        echo(f"{label}: {what} ended", err=True)


class _ProgressBar(SilentObserver):
    def __init__(self, num_rounds: int) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns, console=console(stderr=True), refresh_per_second=_DRAWINGS_PER_SECOND, transient=True
        )
        self._task: TaskID = self._progress.add_task("", total=num_rounds)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def open(self, label: str, url: str | None) -> None:
        self._progress.update(self._task, description=f"{label}: {_describe_start(url)}")

    def begin(self, what: str, label: str) -> None:
        self._progress.update(self._task, description=f"{label}: {what}")

    def end(self, what: str, label: str, *, is_last: bool) -> None:  # noqa: ARG002
        if what.startswith("round") and is_last:
            self._progress.advance(self._task)


def _describe_start(url: str | None) -> str:
    return f"measuring {url}" if url else "starting a server"
