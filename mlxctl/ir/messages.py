"""Messages and their parts. Pure values.

Equal content means equal. No wire names and no storage ids.
"""

from dataclasses import dataclass
from typing import Literal

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """A text part of a message."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image as encoded bytes (PNG, JPEG, …).

    Never a path or a URL.
    """

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPart:
    """Audio as encoded bytes (WAV, MP3, …).

    Never a path or a URL.
    """

    data: bytes
    media_type: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ThinkingPart:
    """The model's thinking; `signature` is opaque and only round-trips."""

    text: str
    signature: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolCallPart:
    """A call that the model requested.

    `arguments` is JSON text, exactly as generated or as the client sent it back.
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolResultPart:
    """A tool's result for the call `call_id`."""

    call_id: str
    content: "tuple[TextPart | ImagePart, ...]"
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text of the result without images."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))


Part = TextPart | ImagePart | AudioPart | ThinkingPart | ToolCallPart | ToolResultPart


@dataclass(frozen=True, slots=True, kw_only=True)
class Message:
    """One turn, or a part of one, in order.

    A `tool` message holds only ToolResultParts.
    """

    role: Role
    parts: tuple[Part, ...]
    name: str | None = None

    @property
    def text(self) -> str:
        """The plain text of the message.

        Parts are joined without a separator; thinking, tools and media are left out.
        """
        return "".join(part.text for part in self.parts if isinstance(part, TextPart))

    @property
    def thinking(self) -> str:
        """The thinking of the message, parts joined without a separator."""
        return "".join(part.text for part in self.parts if isinstance(part, ThinkingPart))

    @property
    def num_images(self) -> int:
        """The number of images, those in tool results included."""
        within = (part for result in self.tool_results for part in result.content)
        return sum(isinstance(part, ImagePart) for part in (*self.parts, *within))

    @property
    def tool_calls(self) -> tuple[ToolCallPart, ...]:
        """The calls of an assistant message, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolCallPart))

    @property
    def is_start_of_answer(self) -> bool:
        """Whether it can be continued as the last message.

        It is an assistant message with text and without calls.
        """
        return self.role == "assistant" and bool(self.text.strip()) and not self.tool_calls

    @property
    def tool_results(self) -> tuple[ToolResultPart, ...]:
        """The results that the message carries, in order."""
        return tuple(part for part in self.parts if isinstance(part, ToolResultPart))


def text_message(role: Role, text: str) -> Message:
    """Return a message of plain text."""
    return Message(role=role, parts=(TextPart(text=text),))
