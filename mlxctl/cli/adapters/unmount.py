"""`mlxctl adapters unmount`."""

from typing import Annotated

import typer
from msgspec import to_builtins

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.terminal_text import echo, escape_line

Model = Annotated[
    str | None,
    typer.Option("--model", "-m", metavar="MODEL", help="Base model. Default: the server's first model."),
]
app = create_app()


@app.command(epilog="Example: mlxctl adapters unmount sql")
def unmount(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Adapter, as `mlxctl adapters ls` lists it.")],
    model: Model = None,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Unmount a LoRA adapter of a running server."""
    with report_errors():
        from mlxctl.cli.inspector.served_adapters import AdapterServer

        with AdapterServer(server_url(url), api_key=api_key) as server:
            found = server.unmount(name, model)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(escape_line(f"{found.model}:{found.id}: unmounted"))
