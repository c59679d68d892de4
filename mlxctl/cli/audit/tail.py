"""`mlxctl audit tail`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile

app = create_app()


@app.command(epilog="Example: mlxctl audit tail --lines 50")
def tail(
    lines: Annotated[int, typer.Option("--lines", "-n", min=1, max=1000, help="Number of records.")] = 20,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show the last audit records, the newest last."""
    with report_errors():
        from mlxctl.cli.audit.records import find, open_files, show
        from mlxctl.state.stores.audit_files import AuditQuery

        show(reversed(find(open_files(config), AuditQuery(limit=lines))), as_json=as_json)
