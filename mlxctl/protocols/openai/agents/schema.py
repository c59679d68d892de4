"""The bodies of `POST /v1/agents` and `POST /v1/agents/{id}/generate`.

A turn is a chat completion whose `messages` are only the new ones. What an agent was made with holds where a turn says nothing.
"""

from typing import Annotated, Literal

from msgspec import Meta, Struct

from mlxctl.protocols.openai.chat_schema import ChatRequest, Tool
from mlxctl.protocols.ranges import Name

MAX_TOOLS = 512
MAX_METADATA = 16

AgentId = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$")]
Overflow = Literal["error", "drop_oldest"]
Metadata = Annotated[dict[Annotated[str, Meta(max_length=64)], Annotated[str, Meta(max_length=512)]], Meta(max_length=MAX_METADATA)]


class AgentSettings(Struct):
    """What stays the same between turns; `metadata` is the caller's own and only told back."""

    instructions: str | None = None
    tools: Annotated[list[Tool], Meta(max_length=MAX_TOOLS)] | None = None
    context_overflow: Overflow = "error"
    metadata: Metadata | None = None


class AgentSpec(AgentSettings, kw_only=True):
    """A new agent. Without an `id` it gets one; `model` is the one that answers until a turn names another."""

    model: Name
    id: AgentId | None = None


class AgentTurn(ChatRequest, kw_only=True):
    """New messages for an agent, and how to answer them."""

    model: Name | None = None  # type: ignore[assignment]
    context_overflow: Overflow | None = None
