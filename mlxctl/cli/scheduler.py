"""`mlxctl scheduler`: the scheduler's settings of a running server."""

from typing import TYPE_CHECKING, Annotated

from mlxctl.cli.commands import group
from mlxctl.cli.live_settings import LiveSettings, open_server, print_settings, read_changes
from mlxctl.cli.options import AsJson
from mlxctl.cli.parameters import Argument, opening

if TYPE_CHECKING:
    from mlxctl.cli.inspector.connection import ServerConnection

_PATH = "/admin/scheduler"
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
@opening(open_server)
def show(server: "ServerConnection", as_json: AsJson = False) -> None:
    """Show the scheduler's settings of a running server."""
    print_settings(server.request("GET", _PATH, LiveSettings), as_json=as_json)


@app.command(
    "set",
    short_help="Change the scheduler's settings of a running server.",
    epilog="Example: mlxctl scheduler set enable_preemption=true max_rows=16",
)
@opening(open_server)
def set_settings(
    server: "ServerConnection",
    changes: Annotated[
        list[str],
        Argument(
            metavar="NAME=VALUE...", offers=NAMES, help="Settings, as `mlxctl scheduler show` prints them."
        ),
    ],
    as_json: AsJson = False,
) -> None:
    """Change the scheduler's settings of a running server, until its restart."""
    print_settings(server.request("PATCH", _PATH, LiveSettings, read_changes(changes)), as_json=as_json)
