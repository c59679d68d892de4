"""What is told of things that are kept here, as types: only for the description."""

from typing import Any, Literal

from msgspec import Struct

from mlxctl.protocols.openai.chat_schema import ChatMessage


class ItemList(Struct):
    """A page of what led to a response; an item is as it was sent, with an id and a type."""

    object: Literal["list"]
    data: list[dict[str, Any]]
    first_id: str | None
    last_id: str | None
    has_more: bool


class AgentMessage(Struct):
    """What was said; its id is its position."""

    id: str
    message: ChatMessage


class AgentMessageList(Struct):
    """A page of what was said."""

    object: Literal["list"]
    data: list[AgentMessage]
    first_id: str | None
    last_id: str | None
    has_more: bool


class Deletion(Struct):
    """Something is gone."""

    id: str
    object: Literal["response", "agent"]
    deleted: Literal[True]
