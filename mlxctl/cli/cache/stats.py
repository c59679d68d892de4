"""`mlxctl cache stats`."""

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


@app.command(epilog="Example: mlxctl cache stats --json    or: mlxctl cache stats --disk")
def stats(
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Show cache hits, saved tokens, sizes and evictions since the server started, or the size of a
    directory.
    """
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        stats = cache.stats()
    if as_json:
        print_json({name: value for name, value in stats.items() if name.startswith("cache_")})
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.rendering import counters

    console().print(counters(stats))
