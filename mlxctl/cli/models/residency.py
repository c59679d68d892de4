"""What `mlxctl models load`, `unload`, `pin` and `unpin` share: one change of one model of a server."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url

_SUMMARIES = {
    "load": "Load a model of a running server into memory.",
    "unload": "Unload a model of a running server; requests load it again.",
    "pin": "Load a model of a running server, and never unload it to make room.",
    "unpin": "Allow a pinned model to be unloaded.",
}


def change_command(action: str) -> typer.Typer:
    """Return the app of the command that makes this change."""
    app = create_app()

    @app.command(help=_SUMMARIES[action], epilog=f"Example: mlxctl models {action} NAME")
    def change(
        name: Annotated[str, typer.Argument(metavar="NAME", help="Model, as `mlxctl models ps` lists it.")],
        as_json: AsJson = False,
        url: ServerUrl = None,
        api_key: ApiKey = None,
    ) -> None:
        with report_errors():
            from mlxctl.inspector.served_models import ModelServer

            with ModelServer(server_url(url), api_key=api_key) as server:
                found = server.change(action, name)  # type: ignore[arg-type]
        if as_json:
            print_json(found)
        else:
            pinned = ", pinned" if found["pinned"] else ""
            typer.echo(f"{found['model']}: {found['state'].replace('_', ' ')}{pinned}")

    return app
