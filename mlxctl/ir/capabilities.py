"""A model's measured or configured capabilities. Pure value."""

from dataclasses import dataclass
from typing import Literal

ToolDelivery = Literal["template", "injected"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCapabilities:
    """What a probe measured or the operator configured.

    None means unknown: the adapter then detects it from the model's files. `tool_delivery` is how tools reach
    the model: by the chat template, or in the system prompt. The ids are those of parsers.
    """

    tools: bool | None = None
    tool_parser_id: str | None = None
    tool_delivery: ToolDelivery | None = None
    thinking: bool | None = None
    thinking_parser_id: str | None = None
