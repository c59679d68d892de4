"""`mlxctl cache explain`."""

from pathlib import Path
from typing import Annotated

import typer

from mlxctl.cli.cache.shared_options import (
    ApiKey,
    AsJson,
    DirectoryInstead,
    OnDisk,
    Url,
    open_cache,
    print_json,
)
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl cache explain --last 5    or: mlxctl cache explain request.json")
def explain(
    file: Annotated[
        Path | None, typer.Argument(metavar="[FILE]", help="A request as JSON; it is explained, not made.")
    ] = None,
    last: Annotated[
        int, typer.Option(min=1, max=64, metavar="N", help="The last N requests of the server instead.")
    ] = 1,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Explain why a request hit or missed the cache."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.inspector.explain import explained

        found, drawn = explained(cache, file, last=last)
    if as_json:
        print_json(found)
        return
    from mlxctl.cli.console import console

    console().print(drawn)
