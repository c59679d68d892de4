"""`mlxctl cache ls`."""

import time

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


@app.command(epilog="Example: mlxctl cache ls    or: mlxctl cache ls --disk")
def ls(
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """List the cached conversations, the most recently used first."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        if as_json:
            print_json([chunk.as_dict() for chunk in cache.chunks()])
            return
        trees = cache.trees()
    from mlxctl.cli.console import console
    from mlxctl.inspector.rendering import branches_table

    console().print(branches_table(trees, now=time.time()))
