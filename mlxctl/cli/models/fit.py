"""`mlxctl models fit`."""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings, setting
from mlxctl.cli.served_directories import find_directory
from mlxctl.state.settings import ModelSettings, Settings

if TYPE_CHECKING:
    from mlxctl.library import Fit, ModelDescription

    Rows = list[tuple[str, Fit]]

app = create_app()
Names = Annotated[
    list[str],
    typer.Argument(
        metavar="NAME...", help="Models of the library or a running server, aliases, or directories."
    ),
]
Context = Annotated[
    int | None,
    typer.Option("--context", min=1, metavar="TOKENS", help="Length of the conversation.  [default: 8192]"),
]
Bits = Annotated[str | None, setting(ModelSettings, "kv_bits", "--kv-bits", metavar="BITS")]
Group = Annotated[str | None, setting(ModelSettings, "kv_group_size", "--kv-group-size", metavar="NUMBER")]
Macs = Annotated[
    bool, typer.Option("--macs", help="For every Apple chip and memory size instead of this machine.")
]


@app.command(epilog="Example: mlxctl models fit mlx-community/Qwen3-8B-4bit --context 32768 --macs")
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
    _print(rows, as_json=as_json)


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


def _print(rows: "Rows", *, as_json: bool) -> None:
    if as_json:
        import msgspec

        from mlxctl.library.views import FitView

        print_json([msgspec.to_builtins(FitView.of(name, fit)) for name, fit in rows])
        return
    from mlxctl.cli.console import console, print_names
    from mlxctl.cli.models.tables import WIDE, fit_legend, fit_table

    out = console(width=WIDE)
    print_names(out, fit_table(rows))
    out.print(fit_legend(rows), style="dim")


def _refuse(model: "ModelDescription") -> "Fit":
    from mlxctl.ir.errors import BrokenModel

    raise BrokenModel(model.path, model.problem or f"model {model.name!r} has no weights to measure")
