"""`mlxctl cache diff`."""

from typing import Annotated

import typer

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache diff 3fa91c 77b0e2")
def diff(
    one: Annotated[str, typer.Argument(metavar="A", help="First characters of a conversation's key.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another conversation of the same model.")],
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Show how many tokens two conversations share, and where they differ."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.cli.inspector.branches import find_branch
        from mlxctl.cli.inspector.comparison import compare

        trees = cache.trees()
        found = compare(find_branch(trees, one), find_branch(trees, other))
    if as_json:
        print_json(found.as_dict())
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import comparison

    console().print(comparison(found))
