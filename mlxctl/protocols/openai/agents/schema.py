"""The bodies of `POST /v1/agents`, `PATCH /v1/agents/{id}` and `POST /v1/agents/{id}/generate`.

A turn is a chat completion whose `messages` are only the new ones. What an agent was made with holds where a
turn says nothing.
"""

from typing import Annotated, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.protocols.cache_options import CacheSalt
from mlxctl.protocols.openai.chat_schema import ChatRequest, ChatTool
from mlxctl.protocols.ranges import Metadata, Name

MAX_TOOLS = 512

AgentId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Overflow = Literal["error", "drop_oldest"]
Tools = Annotated[list[ChatTool], Meta(max_length=MAX_TOOLS)]


class AgentSettings(Struct):
    """What stays the same between turns; `metadata` is the caller's own and only told back, `cache_salt` is
    never told.
    """

    instructions: str | None = None
    tools: Tools | None = None
    context_overflow: Overflow = "error"
    metadata: Metadata | None = None
    cache_salt: CacheSalt | None = None


class AgentSpec(AgentSettings, kw_only=True):
    """A new agent.

    Without an `id` it gets one; `model` is the one that answers until a turn names another.
    """

    model: Name
    id: AgentId | None = None


class AgentChange(Struct, forbid_unknown_fields=True):
    """What is to be otherwise from an agent's next turn on.

    What is not said stays as it is; null takes it away.
    """

    model: Name | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: Tools | UnsetType | None = UNSET
    context_overflow: Overflow | UnsetType = UNSET
    metadata: Metadata | UnsetType | None = UNSET
    cache_salt: CacheSalt | UnsetType | None = UNSET


class AgentTurn(ChatRequest, kw_only=True):
    """New messages for an agent, and how to answer them."""

    model: Name | None = None  # type: ignore[assignment]
    context_overflow: Overflow | None = None
