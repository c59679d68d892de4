"""`mlxctl cache pin`."""

import typer

from mlxctl.cli.cache.target import DirectoryInstead, Keys, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl cache pin 3fa91c")
def pin(
    keys: Keys,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Protect conversations from eviction until they are unpinned."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.cli.inspector.branches import find_branch

        trees = cache.trees()
        ends = [chunk.key for key in keys for chunk in find_branch(trees, key)[-1].chunks[-1:]]
        answer = cache.change("pin", ends)
    print_json(answer) if as_json else echo(f"{answer['num_changed']} pinned")
    if num_left := len(ends) - answer["num_changed"]:
        echo(f"{num_left} not pinned: pinned conversations take at most half of the cache", err=True)
        raise typer.Exit(1)
