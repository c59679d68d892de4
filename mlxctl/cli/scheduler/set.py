"""`mlxctl scheduler set`."""

import json
from typing import Annotated, Any

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, server_url
from mlxctl.cli.scheduler.show import PATH, print_settings

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
        from mlxctl.inspector.connection import ServerConnection

        body = dict(_change(text) for text in changes)
        with ServerConnection(server_url(url), api_key=api_key) as server:
            found = server.request("PATCH", PATH, body)
    print_settings(found, as_json=as_json)


def _change(text: str) -> tuple[str, Any]:
    """Return name and value of a NAME=VALUE text.

    The server checks both. Raises InvalidRequest.
    """
    from mlxctl.errors import InvalidRequest

    name, is_pair, value = text.partition("=")
    if not is_pair or not name:
        raise InvalidRequest(f"expected NAME=VALUE, got {text!r}")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value
