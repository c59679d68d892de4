"""`mlxctl models pull`."""

import os
import sys
import time
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings
from mlxctl.ir.allowed_models import EVERY_MODEL
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo, escape_control_characters

if TYPE_CHECKING:
    from rich.progress import Progress

    from mlxctl.cli.probe.results import ProbeResults
    from mlxctl.library import Library
    from mlxctl.library.download_journal import Download
    from mlxctl.library.downloads import Downloads

_POLL_SECONDS = 0.1
_CLOSE_SECONDS = 2.0
_INTERRUPTED = 130
# Longest time for one answer.
_PROBE_SECONDS = 600.0

app = create_app()


@app.command(epilog="Example: mlxctl models pull mlx-community/Qwen3-8B-4bit")
def pull(
    repository: Annotated[
        str,
        typer.Argument(
            metavar="REPO",
            help="ORGANIZATION/NAME on the hub, the address of its page, or a short name such as qwen3:4b.",
        ),
    ],
    probe: Annotated[bool, typer.Option("--probe", help="Probe the model afterwards.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Download a model from the Hugging Face hub.

    Complete files are not downloaded again. HF_TOKEN gives access to gated and private repositories,
    HF_ENDPOINT names another hub, HF_HUB_CACHE or HF_HOME another directory.
    """
    with report_errors():
        from mlxctl.library.short_names import full_name

        library = open_library(config)
        done = download(full_name(repository), library.hub_cache, is_quiet=as_json)
        if not as_json:
            echo(_summary(done, is_probed=probe))
        results = _probe(done.repository, config, is_quiet=as_json) if probe else None
        if as_json:
            _print_view(done, results)
        if results is not None:
            raise typer.Exit(_report(results, as_json=as_json))


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
        typer.confirm(escape_control_characters(question), abort=True, err=True)
        download(repository, library.hub_cache, is_quiet=False)


def _summary(done: "Download", *, is_probed: bool) -> str:
    """Return a line about the download.

    It ends with the next commands, or why the model cannot be used.
    """
    from mlxctl.library import describe_model

    line = (
        f"downloaded {done.repository} ({describe_bytes(done.num_bytes)})"
        if done.num_bytes
        else f"{done.repository} was downloaded before"
    )
    assert done.path is not None, "it is done"
    model = describe_model(done.path, name=done.repository)
    if model.problem:
        return f"{line}, but it cannot be used: {model.problem}"
    line = f"{line}. Try: mlxctl serve {done.repository}"
    is_text = model.detection.kind in ("text", "vision")
    probe = f"To test tools, thinking and JSON output once: mlxctl probe {done.repository}"
    return f"{line}\n{probe}" if is_text and not is_probed else line


def _probe(repository: str, config: Path | None, *, is_quiet: bool) -> "ProbeResults":
    from mlxctl.cli.probe.results import ProbeOptions, probe_models

    options = ProbeOptions(
        force=False, timeout_seconds=_PROBE_SECONDS, trust_remote_code=False, is_quiet=is_quiet
    )
    return probe_models([repository], read_settings(config), options)


def _print_view(done: "Download", results: "ProbeResults | None") -> None:
    import msgspec

    from mlxctl.library.views import DownloadView

    view = {**msgspec.to_builtins(DownloadView.of(done)), "path": str(done.path) if done.path else None}
    if results is not None:
        problem = _problem(results)
        state = "cancelled" if results.was_stopped else "failed" if problem else "done"
        view |= {"probe": state, "probe_error": problem}
    print_json(view)


def _problem(results: "ProbeResults") -> str | None:
    return next((model.problem for model in results.models if model.problem is not None), None)


def _report(results: "ProbeResults", *, as_json: bool) -> int:
    """Print the probe's results and return the exit code.

    As `mlxctl probe` does; beside JSON only problems.
    """
    if not as_json:
        from mlxctl.cli.probe.report import report

        return report(results, as_json=False, toml=None, with_evidence=False)
    if problem := _problem(results):
        echo(f"mlxctl: {problem}", err=True)
    return _INTERRUPTED if results.was_stopped else int(problem is not None)


def download(repository: str, cache: Path, *, is_quiet: bool) -> "Download":
    """Download the repository with progress on standard error. Raises DownloadFailed.

    Ctrl-C keeps complete files.
    """
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        Progress,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )

    from mlxctl.cli.console import console
    from mlxctl.ir.errors import DownloadFailed
    from mlxctl.library.downloads import Downloads

    columns = (BarColumn(), DownloadColumn(), TransferSpeedColumn(), TimeRemainingColumn())
    downloads, screen = Downloads(cache), console(stderr=True)
    is_hidden = is_quiet or not screen.is_terminal
    try:
        downloads.start(repository, EVERY_MODEL)
        with Progress(
            TextColumn("{task.description}", markup=False),
            *columns,
            console=screen,
            disable=is_hidden,
            transient=True,
        ) as progress:
            found = _wait(downloads, repository, progress)
    except KeyboardInterrupt:
        echo("mlxctl: stopped; complete files are kept, the same command continues", err=True)
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
        found = downloads.find(repository, EVERY_MODEL)
        assert found is not None, "it was just started"
        progress.update(task, completed=found.num_bytes, total=found.num_bytes_total)
        if found.is_over:
            return found
        time.sleep(_POLL_SECONDS)
