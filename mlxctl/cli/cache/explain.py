"""`mlxctl cache explain`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache explain --last 5    or: mlxctl cache explain request.json")
def explain(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A request as JSON; it is explained, not sent.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="The last N requests of the server instead.")
    ] = 1,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Explain why a request hit or missed the cache."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.inspector.explain import explain_cache

        found, drawn = explain_cache(cache, file, last=last)
    if as_json:
        print_json(found)
        return
    from mlxctl.cli.console import console

    console().print(drawn)
