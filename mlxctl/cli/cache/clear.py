"""`mlxctl cache clear`."""

from typing import Annotated

import typer

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl cache clear    or: mlxctl cache clear 3fa91c")
def clear(
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY]...",
            help="Keys of conversations to remove, with those that continue them; without a key, everything.",
        ),
    ] = None,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Remove entries in memory and on disk.

    Entries in use and pinned ones stay.
    """
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        if keys:
            from mlxctl.cli.inspector.branches import find_branch, first_keys

            trees = cache.trees()
            answer = cache.change(
                "drop", [first for key in keys for first in first_keys(find_branch(trees, key)[-1])]
            )
        else:
            answer = cache.change("clear")
    print_json(answer) if as_json else echo(
        f"{answer['num_changed']} chunks dropped, {answer['num_chunks']} left"
    )
