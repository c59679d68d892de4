"""A download that a person watches on standard error, and may end with Ctrl-C."""

import os
import time
from pathlib import Path

import typer
from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)

from mlxctl.errors import DownloadFailed
from mlxctl.models.downloads import Download, Downloads

_LOOK_SECONDS = 0.1
_INTERRUPTED = 130
_PATIENCE_SECONDS = 2.0


def fetch(repository: str, cache: Path, *, is_quiet: bool) -> Download:
    """Fetch the repository and return the finished download; raises DownloadFailed.

    Ctrl-C keeps the files that arrived.
    """
    downloads = Downloads(cache)
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
    )
    try:
        downloads.start(repository)
        screen = Console(stderr=True)
        with Progress(
            *columns, console=screen, disable=is_quiet or not screen.is_terminal, transient=True
        ) as progress:
            found = _watch(downloads, repository, progress)
    except KeyboardInterrupt:
        typer.echo(
            "mlxctl: stopped; files that arrived are kept, the same command goes on with the rest", err=True
        )
        downloads.close()
        if not downloads.wait(seconds=_PATIENCE_SECONDS):
            # A thread that waits for a silent network would hold the process for as long.
            os._exit(_INTERRUPTED)
        raise typer.Exit(_INTERRUPTED) from None
    if found.error is not None:
        raise DownloadFailed(repository, found.error)
    return found


def _watch(downloads: Downloads, repository: str, progress: Progress) -> Download:
    task = progress.add_task(repository, total=None)
    while True:
        found = downloads.find(repository)
        assert found is not None, "it was just started"
        progress.update(task, completed=found.num_bytes, total=found.num_bytes_total)
        if found.is_over:
            return found
        time.sleep(_LOOK_SECONDS)
