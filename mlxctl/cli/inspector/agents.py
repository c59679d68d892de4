"""Agents of a running `mlxctl serve`."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import msgspec
from rich.table import Table

from mlxctl.cli.inspector.connection import MAX_PAGES, ServerConnection
from mlxctl.cli.inspector.rendering import ago, plain

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


Item = TypeVar("Item")


class _Page(msgspec.Struct, Generic[Item]):
    data: list[Item]
    has_more: bool
    last_id: str | None = None


class _AgentMessage(msgspec.Struct):
    message: dict[str, Any]


class AgentServer(ServerConnection):
    """Requests about agents. A caller sees the agents of its API key."""

    def agents(self) -> list[AgentSummary]:
        """Return all agents, oldest first."""
        return self._items("/v1/agents", _Page[AgentSummary])

    def find(self, agent_id: str) -> AgentSummary:
        """Return the agent with this id. Raises UnknownResource."""
        return self.request("GET", _agent_path(agent_id), AgentSummary)

    def messages(self, agent_id: str) -> list[dict[str, Any]]:
        """Return the whole conversation as messages of chat completions."""
        found = self._items(f"{_agent_path(agent_id)}/messages", _Page[_AgentMessage])
        return [each.message for each in found]

    def reset(self, agent_id: str) -> None:
        """Delete the agent's conversation."""
        self.request("POST", f"{_agent_path(agent_id)}/reset", dict[str, Any])

    def delete(self, agent_id: str) -> None:
        """Delete the agent with this id. Raises UnknownResource."""
        self.request("DELETE", _agent_path(agent_id), dict[str, Any])

    def _items(self, path: str, kind: type[_Page[Item]]) -> list[Item]:
        """Return the items of all pages."""
        found: list[Item] = []
        after = ""
        for _ in range(MAX_PAGES):
            page = self.request("GET", f"{path}?limit={_PAGE}{after}", kind)
            found += page.data
            if not page.has_more:
                return found
            after = f"&after={quote(page.last_id or '', safe='')}"
        raise self.endless(path)


def agents_table(agents: Iterable[AgentSummary], *, now: float) -> Table:
    """Return a table with one row per agent."""
    table = Table("agent", "model", "status", box=None, pad_edge=False, header_style="bold")
    for heading in ("messages", "context", "cached", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for agent in agents:
        counts = (_count(agent.num_messages), _count(agent.context_tokens), _count(agent.cached_tokens))
        table.add_row(
            plain(agent.id),
            plain(agent.model),
            plain(agent.status),
            *counts,
            ago(agent.last_access_at, now=now),
        )
    return table


def _agent_path(agent_id: str) -> str:
    return f"/v1/agents/{quote(agent_id, safe='')}"


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
