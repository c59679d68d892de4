"""`mlxctl scheduler set`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.live_settings import LiveSettings, print_settings, read_changes
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, server_url
from mlxctl.cli.scheduler.show import PATH

app = create_app()


@app.command(name="set", epilog="Example: mlxctl scheduler set enable_preemption=true max_rows=16")
def set_settings(
    changes: Annotated[
        list[str],
        typer.Argument(metavar="NAME=VALUE...", help="Settings, as `mlxctl scheduler show` prints them."),
    ],
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Change the scheduler's settings of a running server, until its restart."""
    with report_errors():
        from mlxctl.cli.inspector.connection import ServerConnection

        with ServerConnection(server_url(url), api_key=api_key) as server:
            found = server.request("PATCH", PATH, LiveSettings, read_changes(changes))
    print_settings(found, as_json=as_json)
