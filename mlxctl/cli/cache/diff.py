"""`mlxctl cache diff`."""

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


@app.command(epilog="Example: mlxctl cache diff 3fa91c 77b0e2")
def diff(
    one: Annotated[str, typer.Argument(metavar="A", help="A branch, by the beginning of its key.")],
    other: Annotated[str, typer.Argument(metavar="B", help="Another one of the same model.")],
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Show how many tokens two conversations share, and where they differ."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.inspector.branches import find_branch
        from mlxctl.inspector.comparison import compare

        trees = cache.trees()
        found = compare(find_branch(trees, one), find_branch(trees, other))
    if as_json:
        print_json(found.as_dict())
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.rendering import comparison

    console().print(comparison(found))
