"""`mlxctl agents rm`."""

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.inspector.agents import AgentServer
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import AgentIds, ApiKey, ServerUrl, server_url
from mlxctl.terminal_text import echo

app = create_app()


@app.command(epilog="Example: mlxctl agents rm reviewer")
def rm(ids: AgentIds, url: ServerUrl = None, api_key: ApiKey = None) -> None:
    """Delete agents and their messages."""
    with report_errors(), AgentServer(server_url(url), api_key=api_key) as server:
        for agent_id in ids:
            server.delete(agent_id)
            echo(f"deleted {agent_id}")
