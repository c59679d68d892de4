"""`mlxctl agents`: stored conversations of a running server."""

import json
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated, Any

from mlxctl.cli.commands import group
from mlxctl.cli.options import AsJson, print_json, with_server
from mlxctl.cli.parameters import Argument
from mlxctl.terminal_text import echo

if TYPE_CHECKING:
    from rich.table import Table

    from mlxctl.cli.server_bodies import AgentSummary
    from mlxctl.cli.server_client import ServerClient

AgentIds = Annotated[list[str], Argument(metavar="AGENT...", help="Ids of agents, as `ls` lists them.")]

app = group("agents", example="mlxctl agents ls")


@app.command(
    short_help="List the agents of a running server.",
    epilog="Example: mlxctl agents ls --url http://127.0.0.1:8080",
)
@with_server
def ls(server: "ServerClient", as_json: AsJson = False) -> None:
    """List the agents of a running server, oldest first.

    Shows context length and cached tokens.
    """
    agents = server.agents()
    if as_json:
        print_json([asdict(agent) for agent in agents])
        return
    from mlxctl.cli.console import console

    console().print(_table(agents) if agents else "no agents; POST /v1/agents creates one")


@app.command(epilog="Example: mlxctl agents show reviewer --json")
@with_server
def show(
    server: "ServerClient",
    agent_id: Annotated[str, Argument(metavar="AGENT", help="Id of an agent, as `ls` lists it.")],
    as_json: AsJson = False,
) -> None:
    """Show one agent and its messages."""
    agent, messages = server.agent(agent_id), server.agent_messages(agent_id)
    if as_json:
        print_json({**asdict(agent), "messages": messages})
        return
    from mlxctl.cli.console import console
    from mlxctl.cli.inspector.rendering import plain_lines

    out = console()
    out.print(_table([agent]))
    instructions = [{"role": "instructions", "content": agent.instructions}] if agent.instructions else []
    for message in [*instructions, *messages]:
        out.print()
        out.print(plain_lines(f"{message['role']}:"), style="bold")
        out.print(plain_lines(_message_text(message)))


@app.command(short_help="Delete the messages of agents.", epilog="Example: mlxctl agents reset reviewer")
@with_server
def reset(server: "ServerClient", ids: AgentIds) -> None:
    """Delete the messages of agents. Model, instructions and tools stay."""
    for agent_id in ids:
        server.reset_agent(agent_id)
        echo(f"reset {agent_id}")


@app.command(epilog="Example: mlxctl agents rm reviewer")
@with_server
def rm(server: "ServerClient", ids: AgentIds) -> None:
    """Delete agents and their messages."""
    for agent_id in ids:
        server.delete_agent(agent_id)
        echo(f"deleted {agent_id}")


def _table(agents: "Sequence[AgentSummary]") -> "Table":
    """Return a table with one row per agent."""
    from rich.table import Table

    from mlxctl.cli.inspector.rendering import ago, count, plain

    table = Table("agent", "model", "status", box=None, pad_edge=False, header_style="bold")
    for heading in ("messages", "context", "cached", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for agent in agents:
        texts = map(plain, (agent.id, agent.model, agent.status))
        counts = map(count, (agent.num_messages, agent.context_tokens, agent.cached_tokens))
        table.add_row(*texts, *counts, ago(agent.last_access_at, now=time.time()))
    return table


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
