"""`mlxctl cache show`."""

import time
from typing import Annotated

import typer

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache show 3fa91c")
def show(
    key: Annotated[
        str, typer.Argument(metavar="KEY", help="First characters of a conversation's key, as `ls` lists it.")
    ],
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Show one conversation: size, last use, checkpoints and text."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.cli.inspector.branches import find_branch

        path = find_branch(cache.trees(), key)
    if as_json:
        print_json([chunk.as_dict() for branch in path for chunk in branch.chunks])
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import branch_facts

    console().print(branch_facts(path, now=time.time()))
