"""The command line: parse, resolve settings, call a package, render.

Runs in the process of the command. Each command is one file, imported when it is called.
"""

from typing import Annotated, Any

import typer

from mlxctl.cli.lazy import LazyGroup, create_app
from mlxctl.terminal_text import echo


class RootGroup(LazyGroup):
    """`mlxctl`, which also takes `mlxctl help COMMAND` and `mlxctl version`."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        match args:
            case ["help", *names]:
                args = [*names, "--help"]
            case ["version"]:
                args = ["--version"]
        return super().parse_args(ctx, args)


app = create_app(
    cls=RootGroup,
    name="mlxctl",
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog="Example: mlxctl serve ~/models/Qwen3-8B-4bit",
)


def _print_version(is_wanted: bool) -> None:
    if is_wanted:
        from mlxctl.cli.version import describe_versions

        echo(describe_versions())
        raise typer.Exit


@app.callback()
def mlxctl(
    version: Annotated[
        bool,
        typer.Option(
            "--version", "-v", "-V", is_eager=True, callback=_print_version, help="Print versions and exit."
        ),
    ] = False,
) -> None:
    """Serve, probe, chat with and measure MLX models."""
