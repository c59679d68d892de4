"""The options that every command about agents has, and the server that they name."""

from typing import Annotated

import typer

from mlxctl.cli.cache.shared_options import server_url
from mlxctl.inspector.agents import AgentServer

Ids = Annotated[list[str], typer.Argument(metavar="AGENT...", help="Agents by their ids, which `ls` shows.")]


def open_server(url: str | None, api_key: str | None) -> AgentServer:
    """Return the server that is meant; raises SettingsError."""
    return AgentServer(server_url(url), api_key=api_key)
