"""How requests are refused, as types."""

from typing import Literal

from msgspec import Struct


class OpenAIErrorFacts(Struct):
    """What went wrong, and in which field."""

    message: str
    type: str
    param: str | None
    code: str | None


class OpenAIError(Struct):
    """An error in OpenAI's words."""

    error: OpenAIErrorFacts


class AnthropicErrorFacts(Struct):
    """What went wrong."""

    type: str
    message: str


class AnthropicError(Struct):
    """An error in Anthropic's words."""

    type: Literal["error"]
    error: AnthropicErrorFacts
    request_id: str | None
