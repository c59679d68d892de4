"""`mlxctl cache ls`."""

import time

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache ls    or: mlxctl cache ls --disk")
def ls(
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """List the cached conversations, the most recently used first."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        if as_json:
            print_json([chunk.as_dict() for chunk in cache.chunks()])
            return
        trees = cache.trees()
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import branches_table

    console().print(branches_table(trees, now=time.time()))
