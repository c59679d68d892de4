"""Which message or tool a place in a prompt belongs to. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlxctl.adapters import ModelAdapter
from mlxctl.errors import InvalidRequest
from mlxctl.ir import GenerationRequest, Message, ToolChoice
from mlxctl.prefix_cache.chunks import Salt


@dataclass(frozen=True, slots=True, kw_only=True)
class Place:
    """Its name, and the index of the message or tool, if it is one."""

    name: str
    message: int | None = None
    tool: int | None = None


def with_short_images(prompt_ids: Sequence[int], salts: Sequence[Salt], position: int) -> Sequence[int]:
    """Return the ids of a prompt up to `position`, a single one in place of each image: in its text an image is one word."""
    ids: list[int] = []
    start = 0
    for salt in salts:
        if salt.is_image and salt.start < position:
            ids += prompt_ids[start : salt.start + 1]
            start = salt.end
    return [*ids, *prompt_ids[start:position]]


def find_place(request: GenerationRequest, num_chars: int, adapter: ModelAdapter) -> Place:
    """Name what the character at `num_chars` of the request's prompt belongs to."""
    if not request.messages:
        return Place(name="the prompt")
    text = adapter.prompt_text(request)
    index = _message_at(request, text, num_chars, adapter)
    tool = _tool_at(request, text, num_chars) if index == 0 or request.messages[index - 1].role == "system" else None
    if tool is not None:
        return Place(name=f"tool {tool + 1} ({request.tools[tool].name})", tool=tool)
    return Place(name=f"message {index + 1} ({request.messages[index].role})", message=index)


def _message_at(request: GenerationRequest, text: str, num_chars: int, adapter: ModelAdapter) -> int:
    """The last message without which the template would not have come as far as `num_chars`."""
    index = len(request.messages) - 1
    while index > 0:
        shorter = replace(request, messages=request.messages[:index], tool_choice=ToolChoice())
        try:
            num_common = _num_common(text, adapter.prompt_text(shorter))
        except InvalidRequest:
            # The template wants more of a conversation than this beginning.
            num_common = num_chars + 1
        if num_common <= num_chars:
            return index - 1 if _comes_first(text, num_chars, *request.messages[index - 1 : index + 1]) else index
        index -= 1
    return 0


def _comes_first(text: str, start: int, one: Message, other: Message) -> bool:
    """Whether from `start` on `one` is still to come, and `other` after it: the template wrote `one` in another way before."""
    place, behind = (text.find(message.text, start) if message.text else -1 for message in (one, other))
    return 0 <= place < behind


def _tool_at(request: GenerationRequest, text: str, num_chars: int) -> int | None:
    """The tool whose definition the character belongs to, given that it is in the beginning where tools stand."""
    first = request.messages[0].text
    start = text.find(first) if first else -1
    if 0 <= start <= num_chars < start + len(first):
        return None
    found, place = None, 0
    for index, tool in enumerate(request.tools):
        place = text.find(f'"{tool.name}"', place)
        if place < 0 or place > num_chars:
            break
        found = index
        place += len(tool.name)
    if found is not None and start > text.find(f'"{request.tools[found].name}"') and num_chars >= start:
        return None
    return found


def _num_common(one: str, other: str) -> int:
    """Return how many leading characters agree, by halving."""
    low, high = 0, min(len(one), len(other)) + 1
    while high - low > 1:
        middle = (low + high) // 2
        if one[:middle] == other[:middle]:
            low = middle
        else:
            high = middle
    return low
