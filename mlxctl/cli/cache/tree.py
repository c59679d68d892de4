"""`mlxctl cache tree`."""

import time

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache tree --url http://127.0.0.1:8080")
def tree(
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Draw which conversations share a prefix, and where they differ."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        trees = cache.trees()
    if as_json:
        print_json({model: [branch.as_dict() for branch in branches] for model, branches in trees.items()})
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import branches_tree

    out = console()
    out.print(branches_tree(trees, now=time.time(), width=out.width))
