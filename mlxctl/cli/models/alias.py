"""`mlxctl models alias`."""

import os
from typing import Annotated

import typer

from mlxctl.cli.failures import plain_failures
from mlxctl.cli.models.shared_options import AsJson, ConfigFile, print_json
from mlxctl.settings import remove_alias, settings_file, write_alias

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)
Target = Annotated[
    str | None,
    typer.Argument(metavar="TARGET", help="What it stands for: a model of the library, or a directory."),
]


@app.command(epilog="Example: mlxctl models alias fast mlx-community/Qwen3-8B-4bit")
def alias(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name, written to the settings file.")],
    target: Target = None,
    remove: Annotated[bool, typer.Option("--remove", help="Take the name away instead.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Add a name for a model."""
    if remove != (target is None):
        raise typer.BadParameter("give either a TARGET or --remove")
    file = config or settings_file(os.environ)
    with plain_failures():
        if target is None:
            remove_alias(file, name)
        else:
            from mlxctl.cli.models.naming import check_target

            write_alias(file, name, check_target(target, config))
    if as_json:
        print_json({"alias": name, "target": target, "file": str(file)})
    else:
        typer.echo(f"{name} stands for {target}" if target else f"{name} is no name any more")
