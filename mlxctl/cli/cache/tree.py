"""`mlxctl cache tree`."""

import time

import typer

from mlxctl.cli.cache.shared_options import ApiKey, AsJson, DirectoryInstead, OnDisk, Url, open_cache, print_json
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
    """Draw what conversations share and where they part."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        chunks = cache.chunks()
    if as_json:
        from dataclasses import asdict

        print_json([asdict(chunk) for chunk in chunks])
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.branches import build_trees
    from mlxctl.inspector.rendering import branches_tree

    console().print(branches_tree(build_trees(chunks), now=time.time()))
