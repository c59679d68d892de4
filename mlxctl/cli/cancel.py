"""`mlxctl cancel`."""

from typing import TYPE_CHECKING, Annotated

from msgspec import to_builtins

from mlxctl.cli.commands import command
from mlxctl.cli.options import AsJson, print_json, with_server
from mlxctl.cli.parameters import Argument
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.server_client import ServerClient


@command(epilog="Example: mlxctl cancel 12")
@with_server
def cancel(
    server: "ServerClient",
    request_id: Annotated[
        str,
        Argument(metavar="ID", help="Number of the request in `GET /requests`, or its x-request-id."),
    ],
    as_json: AsJson = False,
) -> None:
    """Cancel a request of a running server.

    A key may cancel its own requests, an admin key every request. The client gets an error.
    """
    found = server.cancel(request_id)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(f"cancelled {', '.join(map(str, found.cancelled))}")
