"""`mlxctl models recommend`."""

from typing import TYPE_CHECKING, Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.models import Machine
    from mlxctl.models.recommendations import Recommendation
    from mlxctl.settings import Settings

app = create_app()


@app.command(epilog="Example: mlxctl models recommend --context 65536")
def recommend(
    context: Annotated[
        int,
        typer.Option("--context", min=1, metavar="TOKENS", help="Length of a conversation that must fit."),
    ] = 32_768,
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
        from mlxctl.models import this_machine
        from mlxctl.models.recommendations import recommend as find

        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        found = [_with_speed(model, machine, settings) for model in find(machine, context_tokens=context)]
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
        return
    if not found:
        echo(
            f"No model of the catalog fits {machine.usable_bytes / 2**30:.1f} GiB with {context:,} tokens; "
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
            f"{model.needed_bytes / 2**30:.1f} GiB",
            f"{model.max_context_tokens:,}",
            f"{measured:.1f} measured" if measured else "unknown" if speed is None else f"≤ {speed:.0f}",
        )
    out = console()
    print_names(out, table)
    out.print("Estimates; none of these weights was run by the project. Try: mlxctl run MODEL")


def _with_speed(model: "Recommendation", machine: "Machine", settings: "Settings") -> "Recommendation":
    """Return the recommendation with the measured speed of a downloaded model."""
    import msgspec

    from mlxctl.errors import ModelError
    from mlxctl.models import Library
    from mlxctl.models.measured_speeds import MeasuredSpeeds

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
