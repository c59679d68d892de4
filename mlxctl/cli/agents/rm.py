"""`mlxctl agents rm`."""

import typer

from mlxctl.cli.agents.shared_options import Ids, open_server
from mlxctl.cli.cache.shared_options import ApiKey, Url
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl agents rm reviewer")
def rm(ids: Ids, url: Url = None, api_key: ApiKey = None) -> None:
    """Delete agents and their messages."""
    with plain_failures(), open_server(url, api_key) as server:
        for agent_id in ids:
            server.delete(agent_id)
            typer.echo(f"deleted {agent_id}")
