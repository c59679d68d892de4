"""`mlxctl adapters`: LoRA adapters of a running server."""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Annotated

from msgspec import to_builtins

from mlxctl.cli.commands import group
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.cli.parameters import Argument, Option, opening
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.cli.inspector.served_adapters import AdapterServer

Name = Annotated[str, Argument(metavar="NAME", help="Adapter, as `mlxctl adapters ls` lists it.")]
Model = Annotated[
    str | None,
    Option("--model", "-m", metavar="MODEL", help="Base model. Default: the server's first model."),
]

app = group("adapters", example="mlxctl adapters ls")


def open_server(url: ServerUrl = None, api_key: ApiKey = None) -> AbstractContextManager["AdapterServer"]:
    """Return a client of the server. Raises SettingsError."""
    from mlxctl.cli.inspector.served_adapters import AdapterServer

    return AdapterServer(server_url(url), api_key=api_key)


@app.command(epilog="Example: mlxctl adapters ls --url http://127.0.0.1:8080")
@opening(open_server)
def ls(server: "AdapterServer", as_json: AsJson = False) -> None:
    """List the LoRA adapters of a running server."""
    adapters = server.adapters()
    if as_json:
        print_json(to_builtins(adapters))
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.served_adapters import adapters_table

    empty = "no adapters; mount one with: mlxctl adapters mount NAME PATH"
    console().print(adapters_table(adapters) if adapters else empty)


@app.command(
    short_help="Mount a LoRA adapter on a running server.",
    epilog="Example: mlxctl adapters mount sql sql-adapter",
)
@opening(open_server)
def mount(
    server: "AdapterServer",
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
@opening(open_server)
def unmount(server: "AdapterServer", name: Name, model: Model = None, as_json: AsJson = False) -> None:
    """Unmount a LoRA adapter of a running server."""
    found = server.unmount(name, model)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(escape_line(f"{found.model}:{found.id}: unmounted"))
