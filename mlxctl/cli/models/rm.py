"""`mlxctl models rm`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.models import open_library
from mlxctl.cli.options import AsJson, ConfigFile, print_json
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo, escape_control_characters

app = create_app()


@app.command(epilog="Example: mlxctl models rm mlx-community/Qwen3-8B-4bit")
def rm(
    name: Annotated[str, typer.Argument(metavar="NAME", help="A model of the library.")],
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Delete a model from disk."""
    with report_errors():
        from mlxctl.library.names import plain_name

        entry = open_library(config).find(plain_name(name))
        from mlxctl.library.description import disk_bytes
        from mlxctl.library.removal import check_removable, remove_model

        check_removable(entry)
        num_bytes = disk_bytes(entry.path)
        if not yes:
            question = f"Remove {entry.name} ({describe_bytes(num_bytes)}) from {entry.folder}?"
            typer.confirm(escape_control_characters(question), abort=True)
        remove_model(entry)
    if as_json:
        print_json({"removed": entry.name, "path": str(entry.folder), "num_bytes": num_bytes})
    else:
        echo(f"removed {entry.name} ({describe_bytes(num_bytes)})")
