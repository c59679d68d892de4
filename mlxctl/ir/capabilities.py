"""What is known of a model's abilities when it is loaded. Pure value."""

from dataclasses import dataclass
from typing import Literal

ToolDelivery = Literal["template", "injected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """What somebody found out about a model, or laid down.

    None is what nobody knows: that is told from the model's files.

    `tool_delivery` is how tools are offered: by the chat template, or written into the system prompt. The ids
    are those of parsers.
    """

    tools: bool | None = None
    tool_parser_id: str | None = None
    tool_delivery: ToolDelivery | None = None
    thinking: bool | None = None
    thinking_parser_id: str | None = None
