"""`mlxctl cache explain`."""

from pathlib import Path
from typing import Annotated, Any

import typer

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.inspector.server import CacheServer
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json
from mlxctl.ir.errors import UsageError

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
        from mlxctl.cli.inspector.rendering import disk_explanation, explanations
        from mlxctl.cli.inspector.request_file import read_request

        request = read_request(file) if file is not None else None
        if isinstance(cache, CacheServer):
            found: Any = (
                cache.explain_last(last) if request is None else cache.explain(request.protocol, request.body)
            )
            drawn = explanations(found)
        elif request is None:
            raise UsageError("only a server keeps its last requests; to explain the disk, name a FILE")
        else:
            explanation = cache.explain(request)
            found, drawn = explanation.as_dict(), disk_explanation(explanation)
    if as_json:
        print_json(found)
        return
    from mlxctl.cli.console import console

    console().print(drawn)
