"""`mlxctl cache gc`."""

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


@app.command(epilog="Example: mlxctl cache gc    or: mlxctl cache gc --disk")
def gc(
    as_json: AsJson = False,
    url: Url = None,
    api_key: ApiKey = None,
    on_disk: OnDisk = False,
    directory: DirectoryInstead = None,
) -> None:
    """Remove expired entries now; on disk also corrupt records and what exceeds the size limit."""
    with plain_failures(), open_cache(url, api_key, on_disk=on_disk, directory=directory) as cache:
        answer = cache.change("gc")
    print_json(answer) if as_json else typer.echo(
        f"{answer['num_changed']} chunks dropped, {answer['num_chunks']} left"
    )
