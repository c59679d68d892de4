"""`mlxctl cache gc`."""

import typer

from mlxctl.cli.cache.shared_options import ApiKey, AsJson, Url, open_server, print_json
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl cache gc")
def gc(as_json: AsJson = False, url: Url = None, api_key: ApiKey = None) -> None:
    """Drop what has outlived its time now, rather than when the server is idle next."""
    with plain_failures(), open_server(url, api_key) as server:
        answer = server.change("gc")
    print_json(answer) if as_json else typer.echo(f"{answer['num_changed']} chunks dropped, {answer['num_chunks']} left")
