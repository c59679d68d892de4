"""Runs a benchmark, stores its result and prints it."""

import asyncio
import os
from collections.abc import Callable
from datetime import datetime
from functools import partial
from pathlib import Path

import typer

from mlxctl.bench.result import Result, encode_result, save_result
from mlxctl.bench.run import RunOptions, ServerChoice, measured_speed, run_bench
from mlxctl.bench.runner import Observer
from mlxctl.bench.scenarios import Scenario
from mlxctl.cli.bench.options import SharedOptions
from mlxctl.cli.bench.progress import progress_on
from mlxctl.cli.bench.tables import print_result, print_summary, table_console
from mlxctl.ir.errors import UsageError
from mlxctl.library import DEMO_MODEL, Library, ModelDescription, describe_model
from mlxctl.library.measured_speeds import MeasuredSpeeds
from mlxctl.state import locations
from mlxctl.state.settings import resolve
from mlxctl.terminal_text import echo

_INTERRUPTED = 130


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
        raise typer.Exit(_INTERRUPTED)
    save_result(result, file)
    _show(result, file, as_json=as_json)
    if result.is_partial:
        echo(f"mlxctl: {result.problem}; the complete rounds are stored as a partial result", err=True)
        raise typer.Exit(_INTERRUPTED if result.problem == "interrupted" else 1)
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
