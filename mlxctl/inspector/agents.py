"""The agents of a running `mlxctl serve`: conversations whose history is kept there."""

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any
from urllib.parse import quote

from rich.table import Table

from mlxctl.inspector.connection import ServerConnection
from mlxctl.inspector.rendering import ago, plain

_PAGE = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Agent:
    """An agent as the server lists it: `status` says how much of its context is computed.

    Times are unix seconds.
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


_FIELDS = {field.name for field in fields(Agent)}


class AgentServer(ServerConnection):
    """The addresses about agents. A caller sees its own: those that were made with the same API key."""

    def agents(self) -> list[Agent]:
        """All of them, oldest first."""
        return [_agent(found) for found in self._pages("/v1/agents")]

    def find(self, agent_id: str) -> Agent:
        """One of them."""
        return _agent(self.ask("GET", _address(agent_id)))

    def messages(self, agent_id: str) -> list[dict[str, Any]]:
        """Everything that was said, in order, as messages of chat completions."""
        return [found["message"] for found in self._pages(f"{_address(agent_id)}/messages")]

    def reset(self, agent_id: str) -> None:
        """Forget what was said."""
        self.ask("POST", f"{_address(agent_id)}/reset")

    def delete(self, agent_id: str) -> None:
        """Forget the agent."""
        self.ask("DELETE", _address(agent_id))

    def _pages(self, path: str) -> Iterable[dict[str, Any]]:
        after = ""
        while True:
            page = self.ask("GET", f"{path}?limit={_PAGE}{after}")
            yield from page["data"]
            if not page["has_more"]:
                return
            after = f"&after={quote(page['last_id'], safe='')}"


def agents_table(agents: Iterable[Agent], *, now: float) -> Table:
    """One line for each agent."""
    table = Table("agent", "model", "status", box=None, pad_edge=False, header_style="bold")
    for heading in ("messages", "context", "cached", "used"):
        table.add_column(heading, justify="right", no_wrap=True)
    for agent in agents:
        counts = (_count(agent.num_messages), _count(agent.context_tokens), _count(agent.cached_tokens))
        table.add_row(
            plain(agent.id), plain(agent.model), agent.status, *counts, ago(agent.last_access_at, now=now)
        )
    return table


def _agent(found: dict[str, Any]) -> Agent:
    return Agent(**{name: value for name, value in found.items() if name in _FIELDS})


def _address(agent_id: str) -> str:
    return f"/v1/agents/{quote(agent_id, safe='')}"


def _count(number: int | None) -> str:
    return "–" if number is None else f"{number:,}"
