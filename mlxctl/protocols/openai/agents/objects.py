"""Answers of the agents API."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, cast

import msgspec
from msgspec import UNSET, Struct, UnsetType

from mlxctl.ir import ContextOverflow, StoredAgent
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.openai.agents.schema import AgentSettings, Tools
from mlxctl.protocols.openai.chat_schema import ChatMessage
from mlxctl.protocols.openai.lists import DEFAULT_PAGE_LIMIT, Deletion, parse_limit
from mlxctl.protocols.ranges import Metadata

AgentStatus = Literal["hot", "warm", "cold"]

_SETTINGS = msgspec.json.Decoder(AgentSettings)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentCacheStatus:
    """How much of an agent's context is cached; None is unknown."""

    status: AgentStatus = "cold"
    num_context_tokens: int | None = None
    num_cached_tokens: int | None = None

    @classmethod
    def of(
        cls, *, num_context_tokens: int, num_cached_tokens: int, num_tokens_on_disk: int
    ) -> "AgentCacheStatus":
        """Return hot, warm or cold.

        Hot is at least half of the context in memory, warm at least half on disk.
        """
        status: AgentStatus = "cold"
        if 2 * num_cached_tokens >= num_context_tokens:
            status = "hot"
        elif 2 * num_tokens_on_disk >= num_context_tokens:
            status = "warm"
        return cls(status=status, num_context_tokens=num_context_tokens, num_cached_tokens=num_cached_tokens)


@dataclass(frozen=True, slots=True, kw_only=True)
class AgentPage:
    """The requested page of a list.

    Up to `limit` entries after the one that `after` names.
    """

    limit: int = DEFAULT_PAGE_LIMIT
    after: str | None = None

    @classmethod
    def read(cls, *, limit: str | None, after: str | None) -> "AgentPage":
        """Parse the query parameters. Raises InvalidRequest."""
        return cls(limit=parse_limit(limit), after=after)

    @property
    def position(self) -> int:
        """`after` as the position of a message.

        -1 if not set. Raises InvalidRequest.
        """
        if self.after is None:
            return -1
        if not (self.after.isascii() and self.after.isdigit() and len(self.after) < 10):
            raise InvalidRequest(f"after is {self.after!r}, which is not the id of a message", param="after")
        return int(self.after)


class AgentCache(Struct, kw_only=True):
    """An agent's cached context in one loaded model, in tokens."""

    model: str
    status: AgentStatus
    cached_tokens: int
    disk_tokens: int


class AgentObject(Struct, kw_only=True):
    """An agent and its cache status; null is unknown.

    Times are unix seconds. `caches` are those of the loaded models; lists of agents leave them out.
    """

    id: str
    object: Literal["agent"] = "agent"
    created_at: int
    last_access_at: int
    model: str
    instructions: str | None
    tools: Tools | None
    max_context: int | None
    context_overflow: ContextOverflow
    metadata: Metadata | None
    persist: bool
    num_messages: int
    status: AgentStatus
    context_tokens: int | None
    cached_tokens: int | None
    caches: list[AgentCache] | UnsetType = UNSET


class AgentList(Struct, kw_only=True):
    """A page of agents."""

    object: Literal["list"] = "list"
    data: list[AgentObject]
    first_id: str | None
    last_id: str | None
    has_more: bool


class AgentMessage(Struct):
    """A message of an agent; its id is its position."""

    id: str
    message: ChatMessage


class AgentMessageList(Struct):
    """A page of messages."""

    object: Literal["list"]
    data: list[AgentMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool


def encode_agent(
    agent: StoredAgent, cache_status: AgentCacheStatus, caches: list[AgentCache] | UnsetType = UNSET
) -> bytes:
    """Return the body for one agent."""
    described = _agent_object(agent, cache_status)
    described.caches = caches
    return msgspec.json.encode(described)


def encode_agents(agents: Sequence[tuple[StoredAgent, AgentCacheStatus]], *, has_more: bool) -> bytes:
    """Return the body for a page of agents."""
    listed = [_agent_object(*pair) for pair in agents]
    ends = (listed[0].id, listed[-1].id) if listed else (None, None)
    return msgspec.json.encode(AgentList(data=listed, first_id=ends[0], last_id=ends[1], has_more=has_more))


def encode_messages(messages: Sequence[tuple[int, bytes]], *, has_more: bool) -> bytes:
    """Return a page of an agent's messages with their positions, encoded."""
    # Stored messages are JSON already.
    listed = [
        AgentMessage(id=str(position), message=cast("ChatMessage", msgspec.Raw(body)))
        for position, body in messages
    ]
    ends = (listed[0].id, listed[-1].id) if listed else (None, None)
    return msgspec.json.encode(
        AgentMessageList(object="list", data=listed, first_id=ends[0], last_id=ends[1], has_more=has_more)
    )


def encode_agent_deletion(agent_id: str) -> bytes:
    """Return the body after an agent was deleted."""
    return msgspec.json.encode(Deletion(id=agent_id, object="agent", deleted=True))


def _agent_object(agent: StoredAgent, cache_status: AgentCacheStatus) -> AgentObject:
    settings = _SETTINGS.decode(agent.settings)
    return AgentObject(
        id=agent.id,
        created_at=int(agent.created),
        last_access_at=int(agent.last_access),
        model=agent.model,
        instructions=settings.instructions,
        tools=settings.tools,
        max_context=settings.max_context,
        context_overflow=settings.context_overflow,
        metadata=settings.metadata,
        persist=agent.is_persistent,
        num_messages=agent.num_messages,
        status=cache_status.status,
        context_tokens=cache_status.num_context_tokens,
        cached_tokens=cache_status.num_cached_tokens,
    )
