"""Options of a chat. Pure values, replaced and never changed."""

from dataclasses import dataclass
from typing import Literal

ThinkingChoice = Literal["default", "on", "off"]


@dataclass(frozen=True, slots=True, kw_only=True)
class ChatOptions:
    """How the model is asked; None leaves a value to the model. `uses_tools` offers the built-in demo tools.

    Calls run by themselves, or, with `asks_before_tools`, when a person says so.
    """

    system_prompt: str = ""
    temperature: float | None = None
    top_p: float | None = None
    max_tokens: int | None = None
    thinking: ThinkingChoice = "default"
    uses_tools: bool = False
    asks_before_tools: bool = False
