"""Images in tool results.

They stay in place where the template renders them there; else a user message after the results shows them.
A model without vision gets a note.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from mlxctl.formats.adapters.templates.chat_template import TemplateMessage
from mlxctl.ir import (
    AudioPart,
    ImagePart,
    Message,
    RemoteImagePart,
    SeenPart,
    ShownPart,
    TextPart,
    ToolResultPart,
    VideoPart,
)

_NOTE = "(an image, which is not shown: this model reads text only)"


class ResultImages:
    """The images of consecutive tool results. `placeholder` marks an image."""

    def __init__(self, placeholder: str, *, is_after: bool) -> None:
        self._placeholder = placeholder
        self._is_after = is_after
        self._num_results = 0
        self._shown: list[str] = []

    def add(self, result: ToolResultPart, name: str | None) -> str:
        """Return the next result's text.

        It contains its images, or a reference to them.
        """
        self._num_results += 1
        num_images = sum(isinstance(part, ImagePart) for part in result.content)
        if not num_images or not self._is_after:
            return "\n".join(self._written(part) for part in result.content)
        images = "1 image" if num_images == 1 else f"{num_images} images"
        label = f"result {self._num_results}" if name is None else f"result {self._num_results} ({name})"
        self._shown.append(f"{images} of {label}:\n{self._placeholder * num_images}")
        return "\n".join(filter(None, [result.text, f"({images}: shown after the results, as of {label})"]))

    def flush(self) -> Iterator[TemplateMessage]:
        """Yield the message with the collected images, if any."""
        if self._shown:
            yield {"role": "user", "content": "\n\n".join(self._shown)}
        self._num_results, self._shown = 0, []

    def _written(self, part: ShownPart) -> str:
        return part.text if isinstance(part, TextPart) else self._placeholder


def without_result_images(message: Message) -> Message:
    """Return a message with notes for the images of tool results."""
    if not message.tool_results:
        return message
    parts = (
        replace(part, content=tuple(map(_noted, part.content))) if isinstance(part, ToolResultPart) else part
        for part in message.parts
    )
    return replace(message, parts=tuple(parts))


def _noted(part: ShownPart) -> ShownPart:
    return TextPart(text=_NOTE) if isinstance(part, ImagePart | RemoteImagePart) else part


def in_call_order(messages: Sequence[Message]) -> Sequence[Message]:
    """Return the conversation with results in the order of their calls.

    Unchanged if no result has images. Templates with one call per message render results in that order, and
    images have to be inserted in the order in which they are rendered.
    """
    if not any(
        isinstance(part, ImagePart)
        for message in messages
        for result in message.tool_results
        for part in result.content
    ):
        return messages
    ordered: list[Message] = []
    results: list[ToolResultPart] = []
    positions: dict[str, int] = {}
    for message in messages:
        if message.role == "tool":
            results += message.tool_results
            continue
        ordered += _one_by_one(results, positions)
        ordered.append(message)
        results, positions = [], {call.id: position for position, call in enumerate(message.tool_calls)}
    return [*ordered, *_one_by_one(results, positions)]


def shown_images(messages: Sequence[Message]) -> list[SeenPart]:
    """Return a conversation's images and clips in the order of the prompt."""
    contents = (
        (
            content
            for part in message.parts
            for content in (part.content if isinstance(part, ToolResultPart) else (part,))
        )
        for message in in_call_order(messages)
    )
    return [part for content in contents for part in content if isinstance(part, ImagePart | VideoPart)]


def shown_audio(messages: Sequence[Message]) -> list[AudioPart]:
    """Return all audio of a conversation, which no tool result has."""
    return [part for message in messages for part in message.parts if isinstance(part, AudioPart)]


def _one_by_one(results: Sequence[ToolResultPart], positions: Mapping[str, int]) -> list[Message]:
    ordered = sorted(results, key=lambda result: positions.get(result.call_id, len(positions)))
    return [Message(role="tool", parts=(result,)) for result in ordered]
