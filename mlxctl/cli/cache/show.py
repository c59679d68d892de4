"""`mlxctl cache show`."""

import time
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


@app.command(epilog="Example: mlxctl cache show 3fa91c")
def show(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="A branch, by the beginning of a key that `ls` shows.")
    ],
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Show one conversation: size, last use, checkpoints and text."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.inspector.branches import find_branch

        path = find_branch(cache.trees(), key)
    if as_json:
        print_json([chunk.as_dict() for branch in path for chunk in branch.chunks])
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.rendering import branch_facts

    console().print(branch_facts(path, now=time.time()))
