"""`mlxctl models pull`."""

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings

if TYPE_CHECKING:
    from rich.progress import Progress

    from mlxctl.models.download_journal import Download
    from mlxctl.models.downloads import Downloads

_POLL_SECONDS = 0.1
_CLOSE_SECONDS = 2.0
_INTERRUPTED = 130
# Longest time for one answer.
_PROBE_SECONDS = 600.0

app = create_app()


@app.command(epilog="Example: mlxctl models pull mlx-community/Qwen3-8B-4bit")
def pull(
    repository: Annotated[str, typer.Argument(metavar="REPO", help="ORGANIZATION/NAME on the hub.")],
    probe: Annotated[bool, typer.Option("--probe", help="Probe the model afterwards.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Download a model from the Hugging Face hub.

    Complete files are not downloaded again. HF_TOKEN gives access to gated and private repositories,
    HF_ENDPOINT names another hub, HF_HUB_CACHE or HF_HOME another directory.
    """
    with report_errors():
        library = open_library(config)
        done = download(repository, library.hub_cache, is_quiet=as_json)
    if as_json:
        import msgspec

        from mlxctl.models.views import DownloadView

        print_json(
            {**msgspec.to_builtins(DownloadView.of(done)), "path": str(done.path) if done.path else None}
        )
    else:
        from mlxctl.cli.models.tables import size

        typer.echo(
            f"downloaded {done.repository} ({size(done.num_bytes)}). Try: mlxctl serve {done.repository}"
        )
    if probe:
        _probe(done.repository, config, as_json=as_json)


def _probe(repository: str, config: Path | None, *, as_json: bool) -> None:
    """Probe a downloaded model and report as `mlxctl probe` does.

    The report is on standard error beside JSON.
    """
    with report_errors():
        from mlxctl.cli.probe.report import report
        from mlxctl.cli.probe.results import ProbeOptions, probe_models

        options = ProbeOptions(
            force=False, timeout_seconds=_PROBE_SECONDS, trust_remote_code=False, is_quiet=as_json
        )
        results = probe_models([repository], read_settings(config), options)
        if not as_json:
            raise typer.Exit(report(results, as_json=False, toml=None, with_evidence=False))
        if problem := results.models[0].problem:
            typer.echo(f"mlxctl: {problem}", err=True)
            raise typer.Exit(1)


def download(repository: str, cache: Path, *, is_quiet: bool) -> "Download":
    """Download the repository with progress on standard error. Raises DownloadFailed.

    Ctrl-C keeps complete files.
    """
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
    from mlxctl.models.downloads import Downloads

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    downloads, screen = Downloads(cache), Console(stderr=True)
    is_hidden = is_quiet or not screen.is_terminal
    try:
        downloads.start(repository)
        with Progress(
            TextColumn("{task.description}"), *columns, console=screen, disable=is_hidden, transient=True
        ) as progress:
            found = _wait(downloads, repository, progress)
    except KeyboardInterrupt:
        typer.echo("mlxctl: stopped; complete files are kept, the same command continues", err=True)
        downloads.close()
        if not downloads.wait(seconds=_CLOSE_SECONDS):
            # A thread that waits for a silent network would delay the exit as long.
            os._exit(_INTERRUPTED)
        raise typer.Exit(_INTERRUPTED) from None
    if found.error is not None:
        raise DownloadFailed(repository, found.error)
    return found


def _wait(downloads: "Downloads", repository: str, progress: "Progress") -> "Download":
    """Return the finished download; update the progress bar until then."""
    task = progress.add_task(repository, total=None)
    while True:
        found = downloads.find(repository)
        assert found is not None, "it was just started"
        progress.update(task, completed=found.num_bytes, total=found.num_bytes_total)
        if found.is_over:
            return found
        time.sleep(_POLL_SECONDS)
