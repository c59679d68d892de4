"""The command line: parse, resolve settings, call a package, render.

Each command is one file, imported when it is called.
"""

from typing import Annotated

import typer

from mlxctl.cli.lazy import LazyGroup, create_app

app = create_app(
    cls=LazyGroup,
    name="mlxctl",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: mlxctl serve --model ~/models/Qwen3-8B-4bit",
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from mlxctl.cli.version import describe_versions

        typer.echo(describe_versions())
        raise typer.Exit


@app.callback()
def mlxctl(
    version: Annotated[
        bool,
        typer.Option("--version", is_eager=True, callback=_print_version, help="Print versions and exit."),
    ] = False,
) -> None:
    """Serve, probe, chat with and measure MLX models."""
