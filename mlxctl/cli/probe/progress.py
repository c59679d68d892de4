"""Progress of a probe.

One transient line on standard error, on terminals only.
"""

from types import TracebackType
from typing import Self

from rich.cells import cell_len, chop_cells
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

from mlxctl.cli.console import console
from mlxctl.state.stores import Finding
from mlxctl.terminal_text import escape_line

_BAR_COLUMNS = 10
# Spinner, bar, steps, tokens, time, and the gaps between all columns.
_OTHER_COLUMNS = 1 + _BAR_COLUMNS + 5 + 14 + 7 + 6
_MIN_TEXT_COLUMNS = 8


class ProgressBar:
    """A probe watcher that draws a progress bar; a context manager."""

    def __init__(self, *, is_quiet: bool, screen: Console | None = None) -> None:
        screen = screen or console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR_COLUMNS),
            MofNCompleteColumn(),
            TextColumn("{task.fields[what]}", markup=False),
            TextColumn("{task.fields[tokens]:,} tokens", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns, console=screen, disable=is_quiet or not screen.is_terminal, transient=True
        )
        self._text_columns = max((screen.width - _OTHER_COLUMNS) // 2, _MIN_TEXT_COLUMNS)
        self._task: TaskID | None = None
        self._num_tokens = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def model_started(self, model: str, num_steps: int) -> None:
        self._num_tokens = 0
        self._task = self._progress.add_task(
            self._fitting(escape_line(model)), total=num_steps, completed=-1, what="", tokens=0
        )

    def step_started(self, what: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=1, what=self._fitting(what))

    def tokens_generated(self, num_tokens: int) -> None:
        self._num_tokens += num_tokens
        if self._task is not None:
            self._progress.update(self._task, tokens=self._num_tokens)

    def found(self, finding: Finding) -> None:
        """Ignore the finding; the table is printed at the end."""

    def _fitting(self, text: str) -> str:
        """Cut a text to half of the line's free columns."""
        if cell_len(text) <= self._text_columns:
            return text
        return f"{chop_cells(text, self._text_columns - 1)[0]}…"

    def ended(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
