"""`mlxctl models ps`, `load`, `unload`, `pin` and `unpin`, on a running server."""

from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import to_builtins

from mlxctl.cli.commands import command
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.cli.parameters import Argument, opening
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.cli.inspector.served_models import ModelServer, ModelStatus


def open_server(url: ServerUrl = None, api_key: ApiKey = None) -> AbstractContextManager["ModelServer"]:
    """Return a client of the server. Raises SettingsError."""
    from mlxctl.cli.inspector.served_models import ModelServer

    return ModelServer(server_url(url), api_key=api_key)


@command(epilog="Example: mlxctl models ps --url http://127.0.0.1:8080")
@opening(open_server)
def ps(server: "ModelServer", as_json: AsJson = False) -> None:
    """List the models of a running server and their state."""
    rows = server.models()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    from mlxctl.cli.console import console, print_names
    from mlxctl.cli.inspector.served_models import served_models_table

    print_names(console(), served_models_table(rows))


def _change_command(action: str) -> click.Command:
    """Return the command of a change; the group's table has its help."""

    @command(action, epilog=f"Example: mlxctl models {action} NAME")
    @opening(open_server)
    def change(
        server: "ModelServer",
        name: Annotated[
            str, Argument(metavar="NAME", offers="models", help="Model, as `mlxctl models ps` lists it.")
        ],
        as_json: AsJson = False,
    ) -> None:
        is_shown = action == "load" and not as_json
        found = _load(server, name) if is_shown else server.change(action, name)  # type: ignore[arg-type]
        if as_json:
            print_json(to_builtins(found))
        else:
            pinned = ", pinned" if found.pinned else ""
            echo(escape_line(f"{found.model}: {found.state.replace('_', ' ')}{pinned}"))

    return change


load, unload, pin, unpin = map(_change_command, ("load", "unload", "pin", "unpin"))


def _load(server: "ModelServer", name: str) -> "ModelStatus":
    """Load a model; on a terminal, standard error shows a progress bar."""
    from mlxctl.cli.console import byte_progress

    with byte_progress(f"loading {name}") as update:
        return server.load(name, on_progress=update)
