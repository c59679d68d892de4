"""`mlxctl cancel`."""

from typing import Annotated
from urllib.parse import quote

import typer
from msgspec import Struct, to_builtins

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.terminal_text import echo

app = create_app()


class CancelledRequest(Struct):
    """A cancelled request, with the numbers of its answers."""

    id: str
    cancelled: list[int]


@app.command(epilog="Example: mlxctl cancel 12")
def cancel(
    request_id: Annotated[
        str,
        typer.Argument(metavar="ID", help="Number of the request in `GET /requests`, or its x-request-id."),
    ],
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Cancel a request of a running server.

    A key may cancel its own requests, an admin key every request. The client gets an error.
    """
    with report_errors():
        from mlxctl.cli.inspector.connection import ServerConnection

        with ServerConnection(server_url(url), api_key=api_key) as server:
            found = server.request("DELETE", f"/requests/{quote(request_id, safe='')}", CancelledRequest)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(f"cancelled {', '.join(map(str, found.cancelled))}")
