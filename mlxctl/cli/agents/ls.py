"""`mlxctl agents ls`."""

import time
from dataclasses import asdict

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.inspector.agents import AgentServer
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url

app = create_app()


@app.command(epilog="Example: mlxctl agents ls --url http://127.0.0.1:8080")
def ls(as_json: AsJson = False, url: ServerUrl = None, api_key: ApiKey = None) -> None:
    """List the agents of a running server, oldest first.

    Shows context length and cached tokens.
    """
    with report_errors(), AgentServer(server_url(url), api_key=api_key) as server:
        agents = server.agents()
    if as_json:
        print_json([asdict(agent) for agent in agents])
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.agents import agents_table

    console().print(
        agents_table(agents, now=time.time()) if agents else "no agents; POST /v1/agents creates one"
    )
