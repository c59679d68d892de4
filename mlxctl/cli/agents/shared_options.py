"""The options that every command about agents has, and the server that they name."""

import os
from typing import Annotated

import typer

from mlxctl.inspector.agents import AgentServer
from mlxctl.settings import resolve

Ids = Annotated[list[str], typer.Argument(metavar="AGENT...", help="Agents by their ids, which `ls` shows.")]


def open_server(url: str | None, api_key: str | None) -> AgentServer:
    """Return the server that is meant; raises SettingsError."""
    server = resolve(environment=os.environ).server
    return AgentServer(url or f"http://{server.host}:{server.port}", api_key=api_key)
