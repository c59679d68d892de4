"""`mlxctl cache unpin`."""

from mlxctl.cli.cache.target import DirectoryInstead, Keys, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl cache unpin 3fa91c")
def unpin(
    keys: Keys,
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Allow the eviction of pinned conversations."""
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        from mlxctl.cli.inspector.branches import find_branch

        trees = cache.trees()
        answer = cache.change(
            "unpin",
            [chunk.key for key in keys for chunk in find_branch(trees, key)[-1].chunks if chunk.is_pinned],
        )
    print_json(answer) if as_json else echo(f"{answer['num_changed']} unpinned")
