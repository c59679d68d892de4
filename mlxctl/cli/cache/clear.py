"""`mlxctl cache clear`."""

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


@app.command(epilog="Example: mlxctl cache clear    or: mlxctl cache clear 3fa91c")
def clear(
    keys: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="[KEY]...", help="Branches to drop with all behind them; without any, everything."
        ),
    ] = None,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Remove entries in memory and on disk. Entries in use and pinned ones stay."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        if keys:
            from mlxctl.inspector.branches import find_branch, first_keys

            trees = cache.trees()
            answer = cache.change(
                "drop", [first for key in keys for first in first_keys(find_branch(trees, key)[-1])]
            )
        else:
            answer = cache.change("clear")
    print_json(answer) if as_json else typer.echo(
        f"{answer['num_changed']} chunks dropped, {answer['num_chunks']} left"
    )
