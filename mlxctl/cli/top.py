"""`mlxctl top`."""

from typing import Annotated

from mlxctl.cli.commands import command
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import server_url
from mlxctl.cli.parameters import Option


@command(epilog="Example: mlxctl top    or: mlxctl top --json | jq .stats.num_decoding")
def top(
    url: Annotated[
        str | None,
        Option(help="Server to monitor.  [default: the one that `mlxctl serve` starts]", metavar="URL"),
    ] = None,
    api_key: Annotated[
        str | None, Option(help="Key for that server.", envvar="MLXCTL_API_KEY", metavar="KEY")
    ] = None,
    interval: Annotated[float, Option(min=0.1, max=3600, help="Refresh interval in seconds.")] = 1.0,
    once: Annotated[bool, Option("--once", help="Print once as text and exit.")] = False,
    format_json: Annotated[bool, Option("--json", help="Print once as a JSON document and exit.")] = False,
) -> None:
    """Monitor a running server: speed, queue, batch, cache, requests."""
    with report_errors():
        from mlxctl.chat.monitor import run_top

        run_top(
            server_url(url),
            api_key=api_key,
            interval_seconds=interval,
            output="json" if format_json else "text" if once else "screen",
        )
