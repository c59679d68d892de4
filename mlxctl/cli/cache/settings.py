"""`mlxctl cache settings`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.live_settings import LiveSettings, print_settings, read_changes
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, server_url

_PATH = "/admin/cache"

app = create_app()


@app.command(epilog="Example: mlxctl cache settings cache_ttl_seconds=3600")
def settings(
    changes: Annotated[
        list[str] | None,
        typer.Argument(metavar="[NAME=VALUE...]", help="Settings to change, as this command prints them."),
    ] = None,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show or change the prefix cache's settings of a running server.

    Changes hold until its restart.
    """
    with report_errors():
        from mlxctl.cli.inspector.connection import ServerConnection

        body = read_changes(changes or ())
        with ServerConnection(server_url(url), api_key=api_key) as server:
            found = server.request("PATCH" if body else "GET", _PATH, LiveSettings, body or None)
    print_settings(found, as_json=as_json)
