"""`mlxctl models alias`."""

import os
from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.state.locations import expand_user
from mlxctl.state.settings import remove_alias, settings_file, write_alias
from mlxctl.terminal_text import echo

app = create_app()
Target = Annotated[
    str | None,
    typer.Argument(metavar="TARGET", help="Model of the library, or directory, that the alias stands for."),
]


@app.command(epilog="Example: mlxctl models alias fast mlx-community/Qwen3-8B-4bit")
def alias(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The new name, written to the settings file.")],
    target: Target = None,
    remove: Annotated[bool, typer.Option("--remove", help="Remove the alias instead.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Add a name for a model."""
    if remove != (target is None):
        raise typer.BadParameter("give either a TARGET or --remove")
    file = config or settings_file(os.environ)
    with report_errors():
        if target is None:
            remove_alias(file, name)
        else:
            write_alias(file, name, _resolve_target(target, config))
    if as_json:
        print_json({"alias": name, "target": target, "file": str(file)})
    else:
        echo(f"{name} stands for {target}" if target else f"removed alias {name}")


def _resolve_target(target: str, config: Path | None) -> str:
    """Return the target as the settings file stores it; directories become absolute.

    Raises ModelNotFoundOnDisk.
    """
    from mlxctl.library.names import plain_name

    library = open_library(config if config and config.exists() else None)
    found = library.resolve(target)
    if target in library.aliases:
        return target
    return str(found.path.resolve()) if expand_user(target).is_dir() else plain_name(target)
