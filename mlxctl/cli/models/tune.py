"""`mlxctl models tune`."""

import asyncio
import shlex
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.bench.scenarios import Speculation
    from mlxctl.bench.tuning import DrafterTrial
    from mlxctl.library.draft_models import Drafters

_INTERRUPTED = 130

app = create_app()


@app.command(epilog="Example: mlxctl models tune mlx-community/Qwen3-8B-4bit")
def tune(
    name: Annotated[
        str, typer.Argument(metavar="NAME", help="A model of the library, an alias, or a directory.")
    ],
    rounds: Annotated[
        int, typer.Option(min=1, max=100, metavar="NUMBER", help="Measured rounds of each drafter.")
    ] = 3,
    streams: Annotated[
        int, typer.Option(min=1, max=256, metavar="NUMBER", help="Streams at once in the batch.")
    ] = 4,
    document_tokens: Annotated[
        int, typer.Option(min=16, metavar="TOKENS", help="Length of each document in a prompt.")
    ] = 400,
    answer_tokens: Annotated[int, typer.Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
    draft_models: Annotated[
        int, typer.Option(min=0, max=20, metavar="NUMBER", help="Draft models to try, the smallest first.")
    ] = 3,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Measure the drafters that fit a model, and name the fastest.

    Starts a server for each drafter: prompt lookup, MTP heads, and draft models of the library. The server
    gives the same answers with and without speculative decoding, in turn. Run it while the machine is
    otherwise idle.
    """
    with report_errors():
        from mlxctl.bench.scenarios import Speculation
        from mlxctl.bench.tuning import drafter_trials, fastest_trial

        scenario = Speculation(
            num_streams=streams, document_tokens=document_tokens, answer_tokens=answer_tokens
        )
        trials = drafter_trials(_find_drafters(name, config), max_draft_models=draft_models)
        measured = [_measure(trial, name, scenario, num_rounds=rounds, is_quiet=as_json) for trial in trials]
    fastest = fastest_trial(measured)
    if as_json:
        import msgspec

        print_json(
            {
                "model": name,
                "trials": msgspec.to_builtins(measured),
                "fastest": fastest.drafter if fastest else None,
                "serve_options": fastest.serve_options if fastest else (),
            }
        )
        return
    _print(measured)
    if fastest is None:
        echo("No drafter makes the answers faster: serve this model without --speculation.")
    else:
        echo(f"Fastest: mlxctl serve {shlex.join((name, *fastest.serve_options))}")


def _measure(
    trial: "DrafterTrial", name: str, scenario: "Speculation", *, num_rounds: int, is_quiet: bool
) -> "DrafterTrial":
    """Measure a drafter; a partial measurement ends the command."""
    from mlxctl.bench.tuning import measure_trial
    from mlxctl.cli.bench.progress import progress_on

    if not is_quiet:
        echo(f"measuring: {shlex.join(trial.serve_options)}", err=True)
    try:
        with progress_on(is_quiet=is_quiet, num_rounds=num_rounds) as observer:
            done = measure_trial(trial, name, scenario, num_rounds=num_rounds, observer=observer)
    except (KeyboardInterrupt, asyncio.CancelledError):
        done = replace(trial, problem="interrupted")
    if done.problem is not None:
        echo(f"mlxctl: {done.problem}; the drafters were not compared", err=True)
        raise typer.Exit(_INTERRUPTED if done.problem == "interrupted" else 1)
    return done


def _find_drafters(name: str, config: ConfigFile) -> "Drafters":
    """Return what can draft for the model. Raises ModelError, SettingsError."""
    from mlxctl.ir.errors import SettingsError
    from mlxctl.library import describe_model
    from mlxctl.library.draft_models import find_drafters

    library = open_library(config)
    found = library.resolve(name)
    model = describe_model(found.path, name=found.name)
    drafters = find_drafters(model, map(library.describe, library.entries()))
    if drafters is None:
        raise SettingsError(model.problem or f"model {found.name!r} does not generate text")
    return drafters


def _print(trials: "list[DrafterTrial]") -> None:
    from rich.table import Table

    from mlxctl.bench.tuning import TASKS
    from mlxctl.cli.console import console, print_names

    table = Table("drafter", box=None, pad_edge=False, header_style="bold")
    for heading in (*TASKS, "overall", "accepted"):
        table.add_column(heading, justify="right", no_wrap=True)
    for trial in trials:
        speedups = (*(trial.speedups.get(task) for task in TASKS), trial.overall)
        accepted = "" if trial.accepted_share is None else f"{trial.accepted_share:.0%}"
        table.add_row(
            trial.drafter, *("" if speed is None else f"{speed:.2f} x" for speed in speedups), accepted
        )
    out = console()
    print_names(out, table)
    out.print("Tokens per second with speculative decoding, divided by those without.")
