"""`mlxctl cache pin`."""

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


@app.command(epilog="Example: mlxctl cache pin 3fa91c")
def pin(
    keys: Keys,
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Protect conversations from eviction until they are unpinned."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.inspector.branches import find_branch

        trees = cache.trees()
        answer = cache.change(
            "pin", [chunk.key for key in keys for chunk in find_branch(trees, key)[-1].chunks[-1:]]
        )
    print_json(answer) if as_json else typer.echo(f"{answer['num_changed']} pinned")
