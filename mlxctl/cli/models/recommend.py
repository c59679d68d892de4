"""`mlxctl models recommend`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.library import Machine
    from mlxctl.library.recommendations import Recommendation
    from mlxctl.state.settings import Settings

_CONTEXT_TOKENS, _CPU_CONTEXT_TOKENS = 32_768, 8192

app = create_app()


@app.command(epilog="Example: mlxctl models recommend --context 65536")
def recommend(
    context: Annotated[
        int | None,
        typer.Option(
            "--context",
            min=1,
            metavar="TOKENS",
            help="Length of a conversation that must fit.  [default: 32768, without a GPU 8192]",
        ),
    ] = None,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Suggest models that fit this machine.

    Lists models of the hub, the largest first. Sizes are estimates from published figures, and the speed is
    an upper bound from memory bandwidth. The project has not run these weights itself; after a download,
    check it with `mlxctl models fit` and `mlxctl probe`.
    """
    with report_errors():
        settings = read_settings(config)
        from mlxctl.library import this_machine
        from mlxctl.library.fit import SLOW_LARGE, SLOW_QUANTIZED
        from mlxctl.library.recommendations import recommend as find

        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        if context is None:
            context = _CPU_CONTEXT_TOKENS if machine.computes_on_cpu else _CONTEXT_TOKENS
        found = [_with_speed(model, machine, settings) for model in find(machine, context_tokens=context)]
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
        return
    if not found:
        echo(
            f"No model of the catalog fits {describe_bytes(machine.usable_bytes)} with {context:,} tokens; "
            "try a shorter --context"
        )
        return
    from rich.table import Table

    from mlxctl.cli.console import console, print_names

    table = Table("model", "for", box=None, pad_edge=False, header_style="bold")
    for heading in ("needs", "context up to", "tokens/s"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in found:
        speed, measured = model.max_tokens_per_second, model.measured_tokens_per_second
        table.add_row(
            model.repository,
            model.purpose,
            describe_bytes(model.needed_bytes),
            f"{model.max_context_tokens:,}",
            f"{measured:.1f} measured" if measured else "unknown" if speed is None else f"≤ {speed:.0f}",
        )
    out = console()
    print_names(out, table)
    out.print(
        f"needs = weights, KV cache of a conversation of {context:,} tokens (--context), and prefill memory, "
        "all estimated.\nThe project has not run these weights. Try: mlxctl run MODEL"
    )
    if machine.computes_on_cpu:
        out.print(f"MLX computes on the CPU here: {SLOW_QUANTIZED}, and {SLOW_LARGE}.")


def _with_speed(model: "Recommendation", machine: "Machine", settings: "Settings") -> "Recommendation":
    """Return the recommendation with the measured speed of a downloaded model."""
    import msgspec

    from mlxctl.ir.errors import ModelError
    from mlxctl.library import Library
    from mlxctl.library.measured_speeds import MeasuredSpeeds

    try:
        path = Library(settings.library).find_named(model.repository).path
    except ModelError:
        return model
    speeds = MeasuredSpeeds()
    speed = speeds.of(path, machine)
    speeds.close()
    if speed is None:
        return model
    return msgspec.structs.replace(model, measured_tokens_per_second=speed.decode_tokens_per_second)
