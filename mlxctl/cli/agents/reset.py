"""`mlxctl agents reset`."""

import typer

from mlxctl.cli.agents.shared_options import Ids, open_server
from mlxctl.cli.cache.shared_options import ApiKey, Url
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl agents reset reviewer")
def reset(ids: Ids, url: Url = None, api_key: ApiKey = None) -> None:
    """Delete the messages of agents. Model, instructions and tools stay."""
    with plain_failures(), open_server(url, api_key) as server:
        for agent_id in ids:
            server.reset(agent_id)
            typer.echo(f"reset {agent_id}")
