"""Downloads of models from the hub, with a progress bar."""

import os
import sys
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING

import click

from mlxctl.cli.error_reports import INTERRUPTED
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo, escape_control_characters

if TYPE_CHECKING:
    from mlxctl.library import Library
    from mlxctl.library.download_journal import Download
    from mlxctl.library.downloads import Downloads

_POLL_SECONDS = 0.1
_CLOSE_SECONDS = 2.0


def missing_repository(name: str, library: "Library") -> str | None:
    """Return the repository of a model that is not on this machine.

    None for one that is. Raises ModelNotFoundOnDisk for a name that no repository can have, and for a model
    that is there and cannot be used.
    """
    from mlxctl.ir.errors import ModelNotFoundOnDisk
    from mlxctl.library.names import is_repository
    from mlxctl.library.short_names import full_name

    try:
        library.resolve(name)
    except ModelNotFoundOnDisk:
        repository = full_name(name)
        # The hub cache may have a part of it; in another place it is there, and cannot be used.
        is_there = any(
            entry.name == repository and entry.origin != "hub cache" for entry in library.entries()
        )
        if "/" not in repository or not is_repository(repository) or is_there:
            raise
        return repository
    return None


def offer_downloads(names: Iterable[str], library: "Library") -> None:
    """Ask whether to download the models that are not on this machine.

    Only on a terminal: without one the server or engine names the command. Raises DownloadFailed; ends the
    command for a model that is not wanted.
    """
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        return
    from mlxctl.ir.errors import DownloadFailed, ModelNotFoundOnDisk
    from mlxctl.library.hub import plan_download

    for name in names:
        try:
            repository = missing_repository(name, library)
            if repository is None:
                continue
            plan = plan_download(repository, cache=library.hub_cache)
        except ModelNotFoundOnDisk:
            continue
        except DownloadFailed:
            if "/" in name and Path(name).parent.is_dir():
                # A path with a typo, of which the hub knows nothing.
                continue
            raise
        amount = f" ({describe_bytes(plan.num_bytes_left)})" if plan.num_bytes_left else ""
        question = f"mlxctl: {repository} is not on this machine. Download it{amount}?"
        click.confirm(escape_control_characters(question), abort=True, err=True)
        download(repository, library.hub_cache, is_quiet=False)


def download(repository: str, cache: Path, *, is_quiet: bool) -> "Download":
    """Download the repository with progress on standard error. Raises DownloadFailed.

    Ctrl-C keeps complete files.
    """
    from mlxctl.cli.console import byte_progress
    from mlxctl.ir.errors import DownloadFailed
    from mlxctl.library.downloads import Downloads

    downloads = Downloads(cache)
    try:
        downloads.start(repository, EVERY_MODEL)
        with byte_progress(repository, is_quiet=is_quiet) as update:
            found = _wait(downloads, repository, update)
    except KeyboardInterrupt:
        echo("mlxctl: stopped; complete files are kept, the same command continues", err=True)
        downloads.close()
        if not downloads.wait(seconds=_CLOSE_SECONDS):
            # A thread that waits for a silent network would delay the exit as long.
            os._exit(INTERRUPTED)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if found.error is not None:
        raise DownloadFailed(repository, found.error)
    return found


def _wait(downloads: "Downloads", repository: str, update: Callable[[int, int | None], None]) -> "Download":
    """Return the finished download; update the progress bar until then."""
    while True:
        found = downloads.find(repository, EVERY_MODEL)
        assert found is not None, "it was just started"
        update(found.num_bytes, found.num_bytes_total)
        if found.is_over:
            return found
        time.sleep(_POLL_SECONDS)
