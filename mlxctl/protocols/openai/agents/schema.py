"""Bodies of the agents API.

A turn is a chat completion whose `messages` are only the new ones; fields that a turn does not set come from
the agent.
"""

from typing import Annotated

from msgspec import UNSET, Meta, Struct, UnsetType

from mlxctl.ir import ContextOverflow
from mlxctl.protocols.extension_fields import CacheSalt
from mlxctl.protocols.openai.chat_schema import ChatRequest, ChatTool
from mlxctl.protocols.ranges import MaxTokens, Metadata, Name

MAX_TOOLS = 512

AgentId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Tools = Annotated[list[ChatTool], Meta(max_length=MAX_TOOLS)]


class AgentSettings(Struct):
    """Settings that stay between turns; `metadata` is returned unchanged, `cache_salt` never.

    `max_context` is the most tokens of prompt and answer of a turn, within the model's context.
    """

    instructions: str | None = None
    tools: Tools | None = None
    max_context: MaxTokens | None = None
    context_overflow: ContextOverflow = "error"
    metadata: Metadata | None = None
    cache_salt: CacheSalt | None = None


class AgentSpec(AgentSettings, kw_only=True, forbid_unknown_fields=True):
    """Body that creates an agent.

    `id` is generated if not given, `model` is the default of its turns. `agent_id` and `system_prompt` are
    other names of `id` and `instructions`. Without `persist` the agent is kept in memory only.
    """

    model: Name
    id: AgentId | None = None
    agent_id: AgentId | None = None
    system_prompt: str | None = None
    persist: bool = True


class AgentChange(Struct, forbid_unknown_fields=True):
    """Changes from the next turn on.

    Absent fields stay, null removes a value.
    """

    model: Name | UnsetType = UNSET
    instructions: str | UnsetType | None = UNSET
    tools: Tools | UnsetType | None = UNSET
    max_context: MaxTokens | UnsetType | None = UNSET
    context_overflow: ContextOverflow | UnsetType = UNSET
    metadata: Metadata | UnsetType | None = UNSET
    cache_salt: CacheSalt | UnsetType | None = UNSET


class AgentTurn(ChatRequest, kw_only=True):
    """New messages for an agent."""

    model: Name | None = None  # type: ignore[assignment]
