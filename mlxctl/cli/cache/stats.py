"""`mlxctl cache stats`."""

import typer

from mlxctl.cli.cache.shared_options import ApiKey, AsJson, Url, open_server, print_json
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl cache stats --json")
def stats(as_json: AsJson = False, url: Url = None, api_key: ApiKey = None) -> None:
    """Count hits by kind, tokens saved, bytes, budget and evictions since the server's start."""
    with plain_failures(), open_server(url, api_key) as server:
        stats = server.stats()
    if as_json:
        print_json({name: value for name, value in stats.items() if name.startswith("cache_")})
        return
    from mlxctl.inspector.rendering import console, counters

    console().print(counters(stats))
