"""`mlxctl cancel`."""

from typing import TYPE_CHECKING, Annotated
from urllib.parse import quote

from msgspec import Struct, to_builtins

from mlxctl.cli.commands import command
from mlxctl.cli.live_settings import open_server
from mlxctl.cli.options import AsJson, print_json
from mlxctl.cli.parameters import Argument, opening
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.inspector.connection import ServerConnection


class CancelledRequest(Struct):
    """A cancelled request, with the numbers of its answers."""

    id: str
    cancelled: list[int]


@command(epilog="Example: mlxctl cancel 12")
@opening(open_server)
def cancel(
    server: "ServerConnection",
    request_id: Annotated[
        str,
        Argument(metavar="ID", help="Number of the request in `GET /requests`, or its x-request-id."),
    ],
    as_json: AsJson = False,
) -> None:
    """Cancel a request of a running server.

    A key may cancel its own requests, an admin key every request. The client gets an error.
    """
    found = server.request("DELETE", f"/requests/{quote(request_id, safe='')}", CancelledRequest)
    if as_json:
        print_json(to_builtins(found))
    else:
        echo(f"cancelled {', '.join(map(str, found.cancelled))}")
