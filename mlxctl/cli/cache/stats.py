"""`mlxctl cache stats`."""

from mlxctl.cli.cache.target import DirectoryInstead, OnDisk, open_cache
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json

app = create_app()


@app.command(epilog="Example: mlxctl cache stats --json    or: mlxctl cache stats --disk")
def stats(
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Show hits, saved tokens, sizes and evictions since the server's start.

    Without a server, shows the size of a directory.
    """
    with report_errors(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        stats = cache.stats()
    if as_json:
        print_json({name: value for name, value in stats.items() if name.startswith("cache_")})
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import counters

    console().print(counters(stats))
