"""`mlxctl agents show`."""

import json
import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.inspector.agents import AgentServer
from mlxctl.cli.lazy import create_app
from mlxctl.cli.options import ApiKey, AsJson, ServerUrl, print_json, server_url

app = create_app()


@app.command(epilog="Example: mlxctl agents show reviewer --json")
def show(
    agent_id: Annotated[str, typer.Argument(metavar="AGENT", help="Id of an agent, as `ls` lists it.")],
    as_json: AsJson = False,
    url: ServerUrl = None,
    api_key: ApiKey = None,
) -> None:
    """Show one agent and its messages."""
    with report_errors(), AgentServer(server_url(url), api_key=api_key) as server:
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
