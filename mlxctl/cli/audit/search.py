"""`mlxctl audit search`."""

from typing import Annotated

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AsJson, ConfigFile

app = create_app()


@app.command(epilog="Example: mlxctl audit search --since 2026-01-31 --status 500")
def search(
    since: Annotated[str | None, typer.Option(metavar="TIME", help="Records from this time on.")] = None,
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Records up to this time.")] = None,
    key: Annotated[
        str | None, typer.Option(metavar="KEY_NAME", help="Name of an API key, as the records have it.")
    ] = None,
    model: Annotated[str | None, typer.Option(metavar="NAME", help="Name of a model.")] = None,
    status: Annotated[int | None, typer.Option(metavar="CODE", help="HTTP status.")] = None,
    limit: Annotated[int, typer.Option(min=1, max=1000, help="Maximum number of records.")] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Search audit records, the newest first.

    A TIME is ISO 8601 (UTC without an offset) or unix seconds.
    """
    with report_errors():
        from mlxctl.cli.audit.records import find, open_files, show, time_of
        from mlxctl.state.stores.audit_files import AuditQuery

        query = AuditQuery(
            since=time_of(since, "--since"),
            until=time_of(until, "--until"),
            key=key,
            model=model,
            status=status,
            limit=limit,
        )
        show(find(open_files(config), query), as_json=as_json)
