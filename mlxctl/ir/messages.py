"""Messages and their parts. Pure values.

Equal content means equal. No wire names and no storage ids.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Literal, TypeVar

from mlxctl.ir.images import Clip

Role = Literal["system", "user", "assistant", "tool"]
PartType = TypeVar("PartType")


@dataclass(frozen=True, slots=True, kw_only=True)
class TextPart:
    """A text part of a message."""

    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ImagePart:
    """An image as encoded bytes (PNG, JPEG, …).

    Never a path or a URL. The field `param` of the request holds it.
    """

    data: bytes
    media_type: str
    param: str = field(default="messages", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class VideoPart:
    """A clip: an encoded file (MP4, GIF, …), or frames as images.

    Never a path or a URL. `fps` frames a second are read, at most `max_frames`; that of `has_frames` is their
    rate. None leaves it to the server. `clip` has the frames once they are decoded.
    """

    files: tuple[bytes, ...] = ()
    has_frames: bool = False
    fps: float | None = None
    max_frames: int | None = None
    param: str = field(default="messages", compare=False)
    clip: Clip | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class RemoteImagePart:
    """An image or a clip that is still to be fetched.

    The field `param` of the request has its URL. `video` has the options of a clip.
    """

    url: str
    video: VideoPart | None = None
    param: str = field(default="messages", compare=False)


@dataclass(frozen=True, slots=True, kw_only=True)
class DocumentPart:
    """A PDF file that is still to be read.

    The field `param` of the request holds it. The `filename` is known in a chat; requests have it as text.
    """

    data: bytes
    param: str = field(default="messages", compare=False)
    filename: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AudioPart:
    """Audio as encoded bytes (WAV, MP3, …).

    Never a path or a URL. The field `param` of the request holds it.
    """

    data: bytes
    media_type: str
    param: str = field(default="messages", compare=False)

    @property
    def format(self) -> str:
        """OpenAI's name of its format, such as `wav`."""
        return self.media_type.removeprefix("audio/")


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
    content: "tuple[ShownPart, ...]"
    is_error: bool = False

    @property
    def text(self) -> str:
        """The text of the result without images."""
        return "\n".join(part.text for part in self.content if isinstance(part, TextPart))


SeenPart = ImagePart | VideoPart
ShownPart = TextPart | SeenPart | RemoteImagePart | DocumentPart
Part = ShownPart | AudioPart | ThinkingPart | ToolCallPart | ToolResultPart


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
        """The number of images and clips, those in tool results included."""
        within = (part for result in self.tool_results for part in result.content)
        return sum(isinstance(part, SeenPart) for part in (*self.parts, *within))

    @property
    def has_audio(self) -> bool:
        """Whether it has audio."""
        return any(isinstance(part, AudioPart) for part in self.parts)

    @property
    def remote_images(self) -> tuple[RemoteImagePart, ...]:
        """The images and clips that are still to be fetched, in order."""
        within = (part for result in self.tool_results for part in result.content)
        return tuple(part for part in (*self.parts, *within) if isinstance(part, RemoteImagePart))

    @property
    def has_documents(self) -> bool:
        """Whether documents are still to be read, in tool results too."""
        within = (part for result in self.tool_results for part in result.content)
        return any(isinstance(part, DocumentPart) for part in (*self.parts, *within))

    def with_fetched(self, images: Mapping[RemoteImagePart, SeenPart]) -> "Message":
        """Return the message with images and clips in place of their URLs."""
        if not self.remote_images:
            return self
        parts = (
            replace(part, content=tuple(_fetched(inner, images) for inner in part.content))
            if isinstance(part, ToolResultPart)
            else _fetched(part, images)
            for part in self.parts
        )
        return replace(self, parts=tuple(parts))

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


def _fetched(part: PartType, images: Mapping[RemoteImagePart, SeenPart]) -> PartType | SeenPart:
    return images.get(part, part) if isinstance(part, RemoteImagePart) else part


def text_message(role: Role, text: str) -> Message:
    """Return a message of plain text."""
    return Message(role=role, parts=(TextPart(text=text),))
