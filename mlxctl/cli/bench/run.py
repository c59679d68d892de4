"""Runs a benchmark, stores its result and prints it."""

import asyncio
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Self

import click
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from mlxctl.bench.result import Result, encode_result, save_result
from mlxctl.bench.run import RunOptions, ServerChoice, measured_speed, run_bench
from mlxctl.bench.runner import Observer
from mlxctl.bench.scenarios import Scenario
from mlxctl.cli.bench.options import SharedOptions
from mlxctl.cli.bench.tables import print_result, print_summary, table_console
from mlxctl.cli.console import console
from mlxctl.cli.error_reports import INTERRUPTED
from mlxctl.ir.errors import UsageError
from mlxctl.library import DEMO_MODEL, Library, ModelDescription, describe_model
from mlxctl.library.measured_speeds import MeasuredSpeeds
from mlxctl.state import locations
from mlxctl.state.settings import resolve
from mlxctl.terminal_text import echo


def run_scenario(scenario: Scenario, options: SharedOptions) -> None:
    """Measure a scenario, store and print the result.

    Exit code 130 after Ctrl-C and 1 after a failure during the run; complete rounds are stored. Raises
    MlxctlError when nothing could be measured.
    """
    run_options = read_options(options)
    run = partial(run_bench, scenario, run_options)
    result = run_and_store(
        run, scenario.name, num_rounds=run_options.num_rounds, out=options.out, as_json=options.as_json
    )
    _save_speed(result, run_options, is_quiet=options.as_json)


def _save_speed(result: Result, options: RunOptions, *, is_quiet: bool) -> None:
    """Store the speed of the model, where the result has one."""
    speed = measured_speed(result, options)
    if speed is None:
        return
    speeds = MeasuredSpeeds()
    try:
        speeds.save(speed)
    finally:
        speeds.close()
    if not is_quiet:
        echo(
            f"stored for models fit, info and recommend: {speed.decode_tokens_per_second:.1f} tokens/s "
            f"of {speed.model} on this machine",
            err=True,
        )


def run_and_store(
    run: Callable[[Observer], Result], name: str, *, num_rounds: int, out: Path | None, as_json: bool
) -> Result:
    """Call `run`, store and print its result; see `run_scenario`."""
    file = _file(out, name)
    try:
        with progress_on(is_quiet=as_json, num_rounds=num_rounds) as observer:
            result = run(observer)
    except (KeyboardInterrupt, asyncio.CancelledError):
        result = None
    if result is None or not result.measurements:
        echo("mlxctl: interrupted before the first round ended; nothing was measured", err=True)
        raise click.exceptions.Exit(INTERRUPTED)
    save_result(result, file)
    _show(result, file, as_json=as_json)
    if result.is_partial:
        echo(f"mlxctl: {result.problem}; the complete rounds are stored as a partial result", err=True)
        raise click.exceptions.Exit(INTERRUPTED if result.problem == "interrupted" else 1)
    return result


def read_options(options: SharedOptions) -> RunOptions:
    """Return the shared options as RunOptions.

    Raises ModelError, and UsageError for options that exclude each other.
    """
    url, model, serve_options = options.url, options.model, tuple(options.serve_options or ())
    if url and serve_options:
        raise UsageError(
            f"{serve_options[0]!r} is an option of the server that is started here; leave out --url"
        )
    if serve_options and not serve_options[0].startswith("-"):
        raise UsageError(f"{serve_options[0]!r} is not an option; name a model with --model")
    if not options.against and (options.against_model or options.against_key):
        raise UsageError("--against-model and --against-key need --against")
    named = ("--model", model) if model and not url else ()
    first = ServerChoice(
        url=url,
        api_key=options.api_key,
        model=model if url else None,
        serve_arguments=(*named, *serve_options),
    )
    other = ServerChoice(url=options.against, api_key=options.against_key, model=options.against_model)
    bandwidth = options.bandwidth
    return RunOptions(
        servers=(first, other) if options.against else (first,),
        num_rounds=options.rounds,
        num_warmups=options.warmups,
        seed=options.seed,
        bandwidth_bytes_per_second=bandwidth * 1e9 if bandwidth else None,
        described=None if url else _describe(model),
        has_serve_options=bool(serve_options),
    )


def _describe(model: str | None) -> ModelDescription:
    """Describe the model of a server that is started here.

    The named one, that of the settings, or the demo model.
    """
    settings = resolve(environment=os.environ)
    named = model or (str(settings.model.path) if settings.model.path else None)
    found = Library(settings.library).resolve(named) if named else DEMO_MODEL
    return describe_model(found.path, name=found.name)


def _file(out: Path | None, scenario: str) -> Path:
    """Return the file of the result.

    `out`, or a new name in the directory `out`. Raises UsageError.
    """
    if out is not None and not out.is_dir() and out.suffix == ".json":
        return out
    if out is not None and out.exists() and not out.is_dir():
        raise UsageError(f"--out {str(out)!r} is neither a directory nor a .json file")
    moment = datetime.now().astimezone().strftime("%Y%m%d-%H%M%S")
    return (out or locations.bench_directory()) / f"{scenario}-{moment}.json"


def _show(result: Result, out: Path, *, as_json: bool) -> None:
    if as_json:
        echo(encode_result(result))
        return
    print_result(result, out, table_console())
    medians: dict[str, dict[str, float]] = {server.label: {} for server in result.servers}
    for found in result.measurements:
        if not found.is_detail:
            medians[found.target][found.name] = float(f"{found.median:.6g}")
    print_summary(
        {
            "scenario": result.scenario,
            "is_partial": result.is_partial,
            "file": str(out),
            "medians": medians,
        }
    )


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
