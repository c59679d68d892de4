"""`mlxctl agents reset`."""

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.inspector.agents import AgentServer
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AgentIds, ApiKey, ServerUrl, server_url
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl agents reset reviewer")
def reset(ids: AgentIds, url: ServerUrl = None, api_key: ApiKey = None) -> None:
    """Delete the messages of agents. Model, instructions and tools stay."""
    with report_errors(), AgentServer(server_url(url), api_key=api_key) as server:
        for agent_id in ids:
            server.reset(agent_id)
            echo(f"reset {agent_id}")
