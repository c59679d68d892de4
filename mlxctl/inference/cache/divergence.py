"""The first token in which two prompts differ: where it is, what stands around it, and what brought it about. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlxctl.adapters import ModelAdapter
from mlxctl.adapters.agent_headers import find_volatile
from mlxctl.errors import InvalidRequest
from mlxctl.inference.cache.seen import SeenRequest
from mlxctl.ir import GenerationRequest, Message, ToolChoice

MissReason = Literal[
    "volatile_header", "tool_order", "tools_changed", "template_rewrite", "bpe_seam", "image_changed", "message_changed"
]

_NUM_NEIGHBOURS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """`position` is that of the token. `before` is the text of the tokens before it, `here` that of it and those behind, `there`
    what the earlier request had instead. `place` names the message or tool; `message` and `tool` are their indexes, if it is one.
    """

    position: int
    reason: MissReason
    place: str
    before: str
    here: str
    there: str
    message: int | None = None
    tool: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class _Place:
    name: str
    message: int | None = None
    tool: int | None = None


def find_divergence(seen: SeenRequest, other: SeenRequest, position: int, adapter: ModelAdapter) -> Divergence:
    """Describe the difference at token `position`, up to which the prompt of `seen` and all of `other` agree."""
    ids, other_ids = seen.prompt_ids, other.token_ids
    num_chars = len(_text(adapter, _with_short_images(seen, position)))
    place = _place(seen.request, num_chars, adapter)
    end = position + _NUM_NEIGHBOURS
    return Divergence(
        position=position,
        reason=_reason(seen, other, position, place, adapter),
        place=place.name,
        before=_text(adapter, ids[max(0, position - _NUM_NEIGHBOURS) : position]),
        here=_text(adapter, ids[position:end]),
        there=_text(adapter, other_ids[position:end]),
        message=place.message,
        tool=place.tool,
    )


def _reason(seen: SeenRequest, other: SeenRequest, position: int, place: _Place, adapter: ModelAdapter) -> MissReason:
    if _is_at_image(seen, position) and _is_at_image(other, position):
        return "image_changed"
    if _is_seam(seen.prompt_ids[position:], other.token_ids[position:], adapter):
        return "bpe_seam"
    if _is_in_volatile_line(seen, other, position, adapter):
        return "volatile_header"
    asked, said = seen.request, other.request
    index = place.message
    is_same_message = index is not None and asked.messages[: index + 1] == said.messages[: index + 1]
    if asked.tools != said.tools and (place.tool is not None or is_same_message or index is None):
        is_reordered = sorted(asked.tools, key=repr) == sorted(said.tools, key=repr)
        return "tool_order" if is_reordered else "tools_changed"
    if is_same_message or (index is not None and _is_reply(asked, index, other, adapter)):
        return "template_rewrite"
    return "message_changed"


def _is_at_image(seen: SeenRequest, position: int) -> bool:
    return any(salt.start == position for salt in seen.salts)


def _with_short_images(seen: SeenRequest, position: int) -> Sequence[int]:
    """The ids of the prompt up to `position`, a single one in place of each image: in its text an image is one word."""
    ids: list[int] = []
    start = 0
    for salt in seen.salts:
        if salt.start < position:
            ids += seen.prompt_ids[start : salt.start + 1]
            start = salt.end
    return [*ids, *seen.prompt_ids[start:position]]


def _is_seam(ids: Sequence[int], other_ids: Sequence[int], adapter: ModelAdapter) -> bool:
    """Whether the texts agree for the whole of both tokens, and only the cuts between tokens differ."""
    bytes_of = adapter.vocabulary.bytes_of
    longest = max(len(bytes_of(ids[0])), len(bytes_of(other_ids[0])))
    one, another = (b"".join(map(bytes_of, run[: longest + 1])) for run in (ids, other_ids))
    return min(len(one), len(another)) >= longest > 0 and one[:longest] == another[:longest]


def _is_in_volatile_line(seen: SeenRequest, other: SeenRequest, position: int, adapter: ModelAdapter) -> bool:
    for ids in (seen.prompt_ids, other.token_ids):
        text, num_chars = _text(adapter, ids), len(_text(adapter, ids[:position]))
        start = text.rfind("\n", 0, num_chars) + 1
        line = text[start:].split("\n", 1)[0]
        span = find_volatile(line)
        if span is not None and span[0] <= num_chars - start <= span[1]:
            return True
    return False


def _is_reply(asked: GenerationRequest, index: int, other: SeenRequest, adapter: ModelAdapter) -> bool:
    """Whether the message sends back what the other request was answered, word for word."""
    if index != len(other.request.messages) or asked.messages[:index] != other.request.messages:
        return False
    message = asked.messages[index]
    answer = _text(adapter, other.answer_ids)
    said = [message.text.strip(), *(call.name for call in message.tool_calls)]
    return message.role == "assistant" and any(said) and all(text in answer for text in said)


def _place(request: GenerationRequest, num_chars: int, adapter: ModelAdapter) -> _Place:
    """Name what the character at `num_chars` of the prompt belongs to."""
    if not request.messages:
        return _Place(name="the prompt")
    text = adapter.prompt_text(request)
    index = _message_at(request, text, num_chars, adapter)
    tool = _tool_at(request, text, num_chars) if index == 0 or request.messages[index - 1].role == "system" else None
    if tool is not None:
        return _Place(name=f"tool {tool + 1} ({request.tools[tool].name})", tool=tool)
    return _Place(name=f"message {index + 1} ({request.messages[index].role})", message=index)


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


def _text(adapter: ModelAdapter, ids: Sequence[int]) -> str:
    return b"".join(map(adapter.vocabulary.bytes_of, ids)).decode(errors="replace")
