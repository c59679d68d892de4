"""`mlxctl models fit` and `tune`: what suits this machine."""

import asyncio
import shlex
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import click

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import INTERRUPTED, report_errors
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings, setting
from mlxctl.cli.parameters import Argument, Option
from mlxctl.cli.served_directories import find_directory, open_library
from mlxctl.state.settings import ModelSettings, Settings
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.library import Fit, ModelDescription

    Rows = list[tuple[str, Fit]]
    from mlxctl.bench.scenarios import Speculation
    from mlxctl.bench.tuning import DrafterTrial
    from mlxctl.library.draft_models import Drafters

Names = Annotated[
    list[str],
    Argument(
        metavar="NAME...",
        offers="models",
        help="Models of the library or a running server, aliases, or directories.",
    ),
]
Context = Annotated[
    int | None,
    Option("--context", min=1, metavar="TOKENS", help="Length of the conversation.  [default: 8192]"),
]
Bits = Annotated[str | None, setting(ModelSettings, "kv_bits", "--kv-bits", metavar="BITS")]
Group = Annotated[str | None, setting(ModelSettings, "kv_group_size", "--kv-group-size", metavar="NUMBER")]
Macs = Annotated[bool, Option("--macs", help="For every Apple chip and memory size instead of this machine.")]


@command(epilog="Example: mlxctl models fit mlx-community/Qwen3-8B-4bit --context 32768 --macs")
def fit(
    names: Names,
    context: Context = None,
    kv_bits: Bits = None,
    kv_group_size: Group = None,
    macs: Macs = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Estimate whether models fit this machine, and their maximum speed.

    Needed memory is weights, KV cache of one conversation, and estimated prefill memory. The speed is what
    `mlxctl bench throughput` measured here, else a prediction: memory bandwidth divided by the weight bytes
    and cache bytes that each token reads. Real speed stays below the prediction.
    """
    with report_errors():
        settings = read_settings(config, {"model": {"kv_bits": kv_bits, "kv_group_size": kv_group_size}})
        if kv_bits is not None:
            # The flag is for all models named here; settings of single models do not count.
            settings = replace(settings, pool=replace(settings.pool, kv_bits_by_name={}))
        rows = _estimate(names, settings, context_tokens=context, on_macs=macs)
    _print_fits(rows, as_json=as_json)


def _estimate(
    names: Sequence[str], settings: Settings, *, context_tokens: int | None, on_macs: bool
) -> "Rows":
    """Return a row for each model and machine. Raises ModelError."""
    from mlxctl.library import Library, describe_model, fit_model, fit_on_macs, this_machine
    from mlxctl.library.measured_speeds import MeasuredSpeeds
    from mlxctl.library.text_options import text_options

    library, chunk_tokens = Library(settings.library), settings.engine.prefill_pass_max_tokens
    directories = [find_directory(name, library) for name in names]
    models = [
        describe_model(found.path, name=found.name).served_with(
            text_options(settings, found.name, found.path)
        )
        for found in directories
    ]
    estimate = partial(fit_model, context_tokens=context_tokens, chunk_tokens=chunk_tokens)
    if on_macs:
        on_all = partial(fit_on_macs, context_tokens=context_tokens, chunk_tokens=chunk_tokens)
        return [(model.name, fit) for model in models for fit in on_all(model) or [_refuse(model)]]
    machine, speeds = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes), MeasuredSpeeds()
    rows = [
        (
            model.name,
            replace(estimate(model, machine) or _refuse(model), measured=speeds.of(model.path, machine)),
        )
        for model in models
    ]
    speeds.close()
    return rows


def _print_fits(rows: "Rows", *, as_json: bool) -> None:
    if as_json:
        import msgspec

        from mlxctl.library.views import FitView

        print_json([msgspec.to_builtins(FitView.named(name, fit)) for name, fit in rows])
        return
    from mlxctl.cli.console import console, print_names
    from mlxctl.cli.models.tables import WIDE, fit_legend, fit_table

    out = console(width=WIDE)
    print_names(out, fit_table(rows))
    out.print(fit_legend(rows), style="dim")


def _refuse(model: "ModelDescription") -> "Fit":
    from mlxctl.ir.errors import BrokenModel

    raise BrokenModel(model.path, model.problem or f"model {model.name!r} has no weights to measure")


@command(epilog="Example: mlxctl models tune mlx-community/Qwen3-8B-4bit")
def tune(
    name: Annotated[
        str,
        Argument(metavar="NAME", offers="models", help="A model of the library, an alias, or a directory."),
    ],
    rounds: Annotated[
        int, Option(min=1, max=100, metavar="NUMBER", help="Measured rounds of each drafter.")
    ] = 3,
    streams: Annotated[
        int, Option(min=1, max=256, metavar="NUMBER", help="Streams at once in the batch.")
    ] = 4,
    document_tokens: Annotated[
        int, Option(min=16, metavar="TOKENS", help="Length of each document in a prompt.")
    ] = 400,
    answer_tokens: Annotated[int, Option(min=2, metavar="TOKENS", help="Length of each answer.")] = 256,
    draft_models: Annotated[
        int, Option(min=0, max=20, metavar="NUMBER", help="Draft models to try, the smallest first.")
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
    _print_trials(measured)
    if fastest is None:
        echo("No drafter makes the answers faster: serve this model without --speculation.")
    else:
        echo(f"Fastest: mlxctl serve {shlex.join((name, *fastest.serve_options))}")


def _measure(
    trial: "DrafterTrial", name: str, scenario: "Speculation", *, num_rounds: int, is_quiet: bool
) -> "DrafterTrial":
    """Measure a drafter; a partial measurement ends the command."""
    from mlxctl.bench.tuning import measure_trial
    from mlxctl.cli.bench.run import progress_on

    if not is_quiet:
        echo(f"measuring: {shlex.join(trial.serve_options)}", err=True)
    try:
        with progress_on(is_quiet=is_quiet, num_rounds=num_rounds) as observer:
            done = measure_trial(trial, name, scenario, num_rounds=num_rounds, observer=observer)
    except (KeyboardInterrupt, asyncio.CancelledError):
        done = replace(trial, problem="interrupted")
    if done.problem is not None:
        echo(f"mlxctl: {done.problem}; the drafters were not compared", err=True)
        raise click.exceptions.Exit(INTERRUPTED if done.problem == "interrupted" else 1)
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


def _print_trials(trials: "list[DrafterTrial]") -> None:
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
