"""`mlxctl scheduler`: the scheduler's settings of a running server."""

from typing import TYPE_CHECKING, Annotated

from mlxctl.cli.commands import group
from mlxctl.cli.live_settings import print_settings, read_changes
from mlxctl.cli.options import AsJson, with_server
from mlxctl.cli.parameters import Argument

if TYPE_CHECKING:
    from mlxctl.cli.server_client import ServerClient

NAMES = (
    "max_rows=",
    "max_queue=",
    "target_gap_ms=",
    "target_ttft_ms=",
    "enable_preemption=",
    "high_priority_threshold=",
    "max_timeslice_tokens=",
    "aging_seconds=",
    "share_rows=",
)
"""What the server takes; its own declaration is too slow to import at a TAB."""

app = group("scheduler", example="mlxctl scheduler show")


@app.command(epilog="Example: mlxctl scheduler show --url http://127.0.0.1:8080")
@with_server
def show(server: "ServerClient", as_json: AsJson = False) -> None:
    """Show the scheduler's settings of a running server."""
    print_settings(server.settings("scheduler"), as_json=as_json)


@app.command(
    "set",
    short_help="Change the scheduler's settings of a running server.",
    epilog="Example: mlxctl scheduler set enable_preemption=true max_rows=16",
)
@with_server
def set_settings(
    server: "ServerClient",
    changes: Annotated[
        list[str],
        Argument(
            metavar="NAME=VALUE...", offers=NAMES, help="Settings, as `mlxctl scheduler show` prints them."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Change the scheduler's settings of a running server, until its restart."""
    print_settings(server.settings("scheduler", read_changes(changes)), as_json=as_json)
