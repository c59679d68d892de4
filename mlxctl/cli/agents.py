"""`mlxctl agents`: stored conversations of a running server."""

import json
import time
from contextlib import AbstractContextManager
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from mlxctl.cli.commands import group
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url
from mlxctl.cli.parameters import Argument, opening
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from mlxctl.cli.inspector.agents import AgentServer

AgentIds = Annotated[list[str], Argument(metavar="AGENT...", help="Ids of agents, as `ls` lists them.")]

app = group("agents", example="mlxctl agents ls")


def open_server(url: ServerUrl = None, api_key: ApiKey = None) -> AbstractContextManager["AgentServer"]:
    """Return a client of the server. Raises SettingsError."""
    from mlxctl.cli.inspector.agents import AgentServer

    return AgentServer(server_url(url), api_key=api_key)


@app.command(
    short_help="List the agents of a running server.",
    epilog="Example: mlxctl agents ls --url http://127.0.0.1:8080",
)
@opening(open_server)
def ls(server: "AgentServer", as_json: AsJson = False) -> None:
    """List the agents of a running server, oldest first.

    Shows context length and cached tokens.
    """
    agents = server.agents()
    if as_json:
        print_json([asdict(agent) for agent in agents])
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.agents import agents_table

    console().print(
        agents_table(agents, now=time.time()) if agents else "no agents; POST /v1/agents creates one"
    )


@app.command(epilog="Example: mlxctl agents show reviewer --json")
@opening(open_server)
def show(
    server: "AgentServer",
    agent_id: Annotated[str, Argument(metavar="AGENT", help="Id of an agent, as `ls` lists it.")],
    as_json: AsJson = False,
) -> None:
    """Show one agent and its messages."""
    agent, messages = server.find(agent_id), server.messages(agent_id)
    if as_json:
        print_json({**asdict(agent), "messages": messages})
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.agents import agents_table
    from mlxctl.cli.inspector.rendering import plain_lines

    out = console()
    out.print(agents_table([agent], now=time.time()))
    instructions = [{"role": "instructions", "content": agent.instructions}] if agent.instructions else []
    for message in [*instructions, *messages]:
        out.print()
        out.print(plain_lines(f"{message['role']}:"), style="bold")
        out.print(plain_lines(_message_text(message)))


@app.command(short_help="Delete the messages of agents.", epilog="Example: mlxctl agents reset reviewer")
@opening(open_server)
def reset(server: "AgentServer", ids: AgentIds) -> None:
    """Delete the messages of agents. Model, instructions and tools stay."""
    for agent_id in ids:
        server.reset(agent_id)
        echo(f"reset {agent_id}")


@app.command(epilog="Example: mlxctl agents rm reviewer")
@opening(open_server)
def rm(server: "AgentServer", ids: AgentIds) -> None:
    """Delete agents and their messages."""
    for agent_id in ids:
        server.delete(agent_id)
        echo(f"deleted {agent_id}")


def _message_text(message: dict[str, Any]) -> str:
    """Return the thinking and text of a message, the rest as JSON."""
    rest = {name: value for name, value in message.items() if name != "role" and value is not None}
    thinking, text = rest.pop("reasoning_content", None), rest.get("content")
    if isinstance(text, str):
        del rest["content"]
    parts = [
        f"(thinking: {thinking})" if thinking else None,
        text if isinstance(text, str) else None,
        json.dumps(rest, ensure_ascii=False) if rest else None,
    ]
    return "\n".join(part for part in parts if part)
