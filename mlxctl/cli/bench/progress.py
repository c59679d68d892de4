"""How far a run is: a line that moves on a terminal, a line for each round elsewhere; always on standard
error.
"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Self

from rich.console import Console
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

# The drawing takes time from what is measured, so it is slow.
_DRAWINGS_PER_SECOND = 4


@contextmanager
def progress_on(*, is_quiet: bool, num_rounds: int) -> Iterator[Observer]:
    """Give the observer that suits where standard error goes."""
    if is_quiet:
        yield Silence()
    elif sys.stderr.isatty():
        with _Moving(num_rounds) as moving:
            yield moving
    else:
        yield _Lines()


class Silence:
    """Says nothing; also what the others are based on."""

    def open(self, label: str, url: str | None) -> None:
        """Ignore it."""

    def begin(self, what: str, label: str) -> None:
        """Ignore it."""

    def end(self, what: str, label: str, *, is_last: bool) -> None:
        """Ignore it."""


class _Lines(Silence):
    def open(self, label: str, url: str | None) -> None:
        print(f"{label}: {_opening(url)}", file=sys.stderr)

    def end(self, what: str, label: str, *, is_last: bool) -> None:  # noqa: ARG002
        print(f"{label}: {what} is over", file=sys.stderr, flush=True)


class _Moving(Silence):
    def __init__(self, num_rounds: int) -> None:
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
        )
        console = Console(stderr=True)
        self._progress = Progress(
            *columns, console=console, refresh_per_second=_DRAWINGS_PER_SECOND, transient=True
        )
        self._task: TaskID = self._progress.add_task("", total=num_rounds)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def open(self, label: str, url: str | None) -> None:
        self._progress.update(self._task, description=f"{label}: {_opening(url)}")

    def begin(self, what: str, label: str) -> None:
        self._progress.update(self._task, description=f"{label}: {what}")

    def end(self, what: str, label: str, *, is_last: bool) -> None:  # noqa: ARG002
        if what.startswith("round") and is_last:
            self._progress.advance(self._task)


def _opening(url: str | None) -> str:
    return f"asking {url}" if url else "starting an own server"
