"""Agents of a running `mlxctl serve`."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote

from rich.table import Table

from mlxctl.inspector.connection import ServerConnection
from mlxctl.inspector.rendering import ago, plain

_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentSummary:
    """An agent as the server lists it; times are unix seconds.

    `status` says how much of its context is cached.
    """

    id: str
    model: str
    status: str
    num_messages: int
    context_tokens: int | None
    cached_tokens: int | None
    created_at: int
    last_access_at: int
    instructions: str | None


_FIELDS = {field.name for field in fields(AgentSummary)}


class AgentServer(ServerConnection):
    """Requests about agents. A caller sees the agents of its API key."""

    def agents(self) -> list[AgentSummary]:
        """Return all agents, oldest first."""
        return [_agent(found) for found in self._pages("/v1/agents")]

    def find(self, agent_id: str) -> AgentSummary:
        """Return the agent with this id. Raises UnknownResource."""
        return _agent(self.request("GET", _agent_path(agent_id)))

    def messages(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the whole conversation as messages of chat completions."""
        return [found["message"] for found in self._pages(f"{_agent_path(agent_id)}/messages")]

    def reset(self, agent_id: str) -> None:
        """Delete the agent's conversation."""
        self.request("POST", f"{_agent_path(agent_id)}/reset")

    def delete(self, agent_id: str) -> None:
        """Delete the agent with this id. Raises UnknownResource."""
        self.request("DELETE", _agent_path(agent_id))

    def _pages(self, path: str) -> Iterable[dict[str, Any]]:
        after = ""
        while True:
            page = self.request("GET", f"{path}?limit={_PAGE}{after}")
            yield from page["data"]
            if not page["has_more"]:
                return
            after = f"&after={quote(page['last_id'], safe='')}"


def agents_table(agents: Iterable[AgentSummary], *, now: float) -> Table:
    """Return a table with one row per agent."""
    table = Table("agent", "model", "status", box=None, pad_edge=False, header_style="bold")
    for heading in ("messages", "context", "cached", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for agent in agents:
        counts = (_count(agent.num_messages), _count(agent.context_tokens), _count(agent.cached_tokens))
        table.add_row(
            plain(agent.id), plain(agent.model), agent.status, *counts, ago(agent.last_access_at, now=now)
        )
    return table


def _agent(found: dict[str, Any]) -> AgentSummary:
    return AgentSummary(**{name: value for name, value in found.items() if name in _FIELDS})


def _agent_path(agent_id: str) -> str:
    return f"/v1/agents/{quote(agent_id, safe='')}"


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
