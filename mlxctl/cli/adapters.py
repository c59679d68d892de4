"""`mlxctl adapters`: LoRA adapters of a running server."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

from msgspec import to_builtins

from mlxctl.cli.commands import group
from mlxctl.cli.options import AsJson, print_json, with_server
from mlxctl.cli.parameters import Argument, Option
from mlxctl.ir.errors import describe_bytes
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from rich.table import Table

    from mlxctl.cli.server_bodies import MountedAdapter
    from mlxctl.cli.server_client import ServerClient

Name = Annotated[str, Argument(metavar="NAME", help="Adapter, as `mlxctl adapters ls` lists it.")]
Model = Annotated[
    str | None,
    Option("--model", "-m", metavar="MODEL", help="Base model. Default: the server's first model."),
]

app = group("adapters", example="mlxctl adapters ls")


@app.command(epilog="Example: mlxctl adapters ls --url http://127.0.0.1:8080")
@with_server
def ls(server: "ServerClient", as_json: AsJson = False) -> None:
    """List the LoRA adapters of a running server."""
    adapters = server.adapters()
    if as_json:
        print_json(to_builtins(adapters))
        return
    from mlxctl.cli.console import console

    empty = "no adapters; mount one with: mlxctl adapters mount NAME PATH"
    console().print(_table(adapters) if adapters else empty)


@app.command(
    short_help="Mount a LoRA adapter on a running server.",
    epilog="Example: mlxctl adapters mount sql sql-adapter",
)
@with_server
def mount(
    server: "ServerClient",
    name: Annotated[str, Argument(metavar="NAME", help="Name of the adapter in requests.")],
    path: Annotated[
        str,
        Argument(
            metavar="PATH",
            help="Adapter below a directory of the server's `adapters.dirs`, or a name of its library.",
        ),
    ],
    model: Model = None,
    as_json: AsJson = False,
) -> None:
    """Mount a LoRA adapter on a model of a running server."""
    found = server.mount(name, path, model)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(escape_line(f"{found.model}:{found.id}: mounted on {found.mounted_layers} layers"))


@app.command(epilog="Example: mlxctl adapters unmount sql")
@with_server
def unmount(server: "ServerClient", name: Name, model: Model = None, as_json: AsJson = False) -> None:
    """Unmount a LoRA adapter of a running server."""
    found = server.unmount(name, model)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(escape_line(f"{found.model}:{found.id}: unmounted"))


def _table(adapters: "Iterable[MountedAdapter]") -> "Table":
    """Return a table with one line for each adapter."""
    from rich.table import Table

    from mlxctl.cli.inspector.rendering import plain

    table = Table("adapter", "model", "path", box=None, pad_edge=False, header_style="bold")
    for heading in ("rank", "scale", "layers", "size"):
        table.add_column(heading, justify="right", no_wrap=True)
    for each in adapters:
        names = map(plain, (each.id, each.model, each.path))
        layers, size = str(each.mounted_layers), describe_bytes(each.size_bytes)
        table.add_row(*names, str(each.rank), f"{each.scale:g}", layers, size)
    return table
