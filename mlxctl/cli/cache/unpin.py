"""`mlxctl cache unpin`."""

import typer

from mlxctl.cli.cache.shared_options import (
    ApiKey,
    AsJson,
    DirectoryInstead,
    Keys,
    OnDisk,
    Url,
    open_cache,
    print_json,
)
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl cache unpin 3fa91c")
def unpin(
    keys: Keys,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Allow the eviction of pinned conversations."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.inspector.branches import find_branch

        trees = cache.trees()
        answer = cache.change(
            "unpin",
            [chunk.key for key in keys for chunk in find_branch(trees, key)[-1].chunks if chunk.is_pinned],
        )
    print_json(answer) if as_json else typer.echo(f"{answer['num_changed']} unpinned")
