"""`mlxctl cache tree`."""

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


@app.command(epilog="Example: mlxctl cache tree --url http://127.0.0.1:8080")
def tree(
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Draw which conversations share a beginning, and where they part."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        trees = cache.trees()
    if as_json:
        print_json({model: [branch.as_dict() for branch in branches] for model, branches in trees.items()})
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.rendering import branches_tree

    out = console()
    out.print(branches_tree(trees, now=time.time(), width=out.width))
