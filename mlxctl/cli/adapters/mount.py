"""`mlxctl adapters mount`."""

from typing import Annotated

import typer
from msgspec import to_builtins

from mlxctl.cli.adapters.unmount import Model
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.terminal_text import echo, escape_line

app = create_app()


@app.command(epilog="Example: mlxctl adapters mount sql sql-adapter")
def mount(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Name of the adapter in requests.")],
    path: Annotated[
        str,
        typer.Argument(
            metavar="PATH",
            help="Adapter below a directory of the server's `adapters.dirs`, or a name of its library.",
        ),
    ],
    model: Model = None,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Mount a LoRA adapter on a model of a running server."""
    with report_errors():
        from mlxctl.cli.inspector.served_adapters import AdapterServer

        with AdapterServer(server_url(url), api_key=api_key) as server:
            found = server.mount(name, path, model)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(escape_line(f"{found.model}:{found.id}: mounted on {found.mounted_layers} layers"))
