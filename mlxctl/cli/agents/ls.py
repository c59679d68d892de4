"""`mlxctl agents ls`."""

import time
from dataclasses import asdict

import typer

from mlxctl.cli.agents.shared_options import open_server
from mlxctl.cli.cache.shared_options import ApiKey, AsJson, Url, print_json
from mlxctl.cli.failures import plain_failures

app = typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False)


@app.command(epilog="Example: mlxctl agents ls --url http://127.0.0.1:8080")
def ls(as_json: AsJson = False, url: Url = None, api_key: ApiKey = None) -> None:
    """List the agents of a running server, the oldest first: how long each one's context is, and how much of
    it is computed.
    """
    with plain_failures(), open_server(url, api_key) as server:
        agents = server.agents()
    if as_json:
        print_json([asdict(agent) for agent in agents])
        return
    from mlxctl.cli.console import console
    from mlxctl.inspector.agents import agents_table

    console().print(
        agents_table(agents, now=time.time()) if agents else "no agents; POST /v1/agents makes one"
    )
