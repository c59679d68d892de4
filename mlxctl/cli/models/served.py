"""`mlxctl models ps`, `load`, `unload`, `pin` and `unpin`, on a running server."""

from collections.abc import Iterable
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import click
from msgspec import to_builtins

from mlxctl.cli.commands import command
from mlxctl.cli.options import AsJson, print_json, with_server
from mlxctl.cli.parameters import Argument
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from rich.table import Table

    from mlxctl.cli.server_bodies import ModelStatus, ServedModelRow
    from mlxctl.cli.server_client import ServerClient


@command(epilog="Example: mlxctl models ps --url http://127.0.0.1:8080")
@with_server
def ps(server: "ServerClient", as_json: AsJson = False) -> None:
    """List the models of a running server and their state."""
    rows = server.model_rows()
    if as_json:
        print_json([asdict(row) for row in rows])
        return
    from mlxctl.cli.console import console, print_names

    print_names(console(), _table(rows))


def _change_command(action: str) -> click.Command:
    """Return the command of a change; the group's table has its help."""

    @command(action, epilog=f"Example: mlxctl models {action} NAME")
    @with_server
    def change(
        server: "ServerClient",
        name: Annotated[
            str, Argument(metavar="NAME", offers="models", help="Model, as `mlxctl models ps` lists it.")
        ],
        as_json: AsJson = False,
    ) -> None:
        is_shown = action == "load" and not as_json
        found = _load(server, name) if is_shown else server.change_model(action, name)  # type: ignore[arg-type]
        if as_json:
            print_json(to_builtins(found))
        else:
            pinned = ", pinned" if found.pinned else ""
            echo(escape_line(f"{found.model}: {found.state.replace('_', ' ')}{pinned}"))

    return change


load, unload, pin, unpin = map(_change_command, ("load", "unload", "pin", "unpin"))


def _load(server: "ServerClient", name: str) -> "ModelStatus":
    """Load a model; on a terminal, standard error shows a progress bar."""
    from mlxctl.cli.console import byte_progress

    with byte_progress(f"loading {name}") as update:
        return server.load(name, on_progress=update)


def _state(row: "ServedModelRow") -> str:
    if row.remote is not None:
        return f"at remote {row.remote}"
    return row.state.replace("_", " ") + (", pinned" if row.is_pinned else "")


def _table(rows: "Iterable[ServedModelRow]") -> "Table":
    """Return a table with one line for each model."""
    from rich.table import Table

    from mlxctl.cli.inspector.rendering import count, plain

    table = Table("model", "state", box=None, pad_edge=False, header_style="bold")
    for heading in ("size", "context", "requests", "idle"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in rows:
        table.add_row(
            plain(", ".join((row.name, *row.aliases))),
            plain(row.problem or _state(row)),
            "–" if row.weights_bytes is None else describe_bytes(row.weights_bytes),
            count(row.context_length),
            count(row.num_requests),
            "–" if row.idle_seconds is None else f"{row.idle_seconds:.0f} s",
        )
    return table
