"""`mlxctl models recommend`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings

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

    They are on the hub; the largest come first. Sizes are estimates from published figures, and the speed is
    an upper bound from memory bandwidth. The project has not run these weights itself; after downloading,
    `mlxctl models fit` and `mlxctl probe` check.
    """
    with report_errors():
        settings = read_settings(config)
        from mlxctl.models import this_machine
        from mlxctl.models.recommendations import recommend as find

        machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
        found = find(machine, context_tokens=context)
    if as_json:
        import msgspec

        print_json(msgspec.to_builtins(found))
        return
    if not found:
        typer.echo(
            f"No model of the catalog fits {machine.usable_bytes / 2**30:.1f} GiB with {context:,} tokens; "
            "try a shorter --context"
        )
        return
    from rich.table import Table

    from mlxctl.cli.console import console

    table = Table("model", "for", box=None, pad_edge=False, header_style="bold")
    for heading in ("needs", "context up to", "tokens/s at most"):
        table.add_column(heading, justify="right", no_wrap=True)
    for model in found:
        speed = model.max_tokens_per_second
        table.add_row(
            model.repository,
            model.purpose,
            f"{model.needed_bytes / 2**30:.1f} GiB",
            f"{model.max_context_tokens:,}",
            "unknown" if speed is None else f"{speed:.0f}",
        )
    out = console()
    out.print(table)
    out.print("Estimates; none of these weights was run by the project. Try: mlxctl run MODEL")
