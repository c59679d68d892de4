"""Bodies of the agents API.

A turn is a chat completion whose `messages` are only the new ones; fields that a turn does not set come from
the agent.
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
    """Settings that stay between turns; `metadata` is returned unchanged, `cache_salt` never."""

    instructions: str | None = None
    tools: Tools | None = None
    context_overflow: Overflow = "error"
    metadata: Metadata | None = None
    cache_salt: CacheSalt | None = None


class AgentSpec(AgentSettings, kw_only=True):
    """Body that creates an agent.

    `id` is generated if not given, `model` is the default of its turns.
    """

    model: Name
    id: AgentId | None = None


class AgentChange(Struct, forbid_unknown_fields=True):
    """Changes from the next turn on.

    Absent fields stay, null removes a value.
    """

    model: Name | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: Tools | UnsetType | None = UNSET
    context_overflow: Overflow | UnsetType = UNSET
    metadata: Metadata | UnsetType | None = UNSET
    cache_salt: CacheSalt | UnsetType | None = UNSET


class AgentTurn(ChatRequest, kw_only=True):
    """New messages for an agent."""

    model: Name | None = None  # type: ignore[assignment]
    context_overflow: Overflow | None = None
