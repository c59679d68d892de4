"""The first token in which two prompts differ: where it is, what stands around it, and what brought it about. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from mlxctl.adapters import ModelAdapter
from mlxctl.adapters.agent_headers import find_volatile
from mlxctl.inference.cache.places import Place, find_place, with_short_images
from mlxctl.inference.cache.seen import SeenRequest
from mlxctl.ir import GenerationRequest

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


def find_divergence(seen: SeenRequest, other: SeenRequest, position: int, adapter: ModelAdapter) -> Divergence:
    """Describe the difference at token `position`, up to which the prompt of `seen` and all of `other` agree."""
    ids, other_ids = seen.prompt_ids, other.token_ids
    num_chars = len(_text(adapter, with_short_images(seen.prompt_ids, seen.salts, position)))
    place = find_place(seen.request, num_chars, adapter)
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


def _reason(seen: SeenRequest, other: SeenRequest, position: int, place: Place, adapter: ModelAdapter) -> MissReason:
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


def _text(adapter: ModelAdapter, ids: Sequence[int]) -> str:
    return b"".join(map(adapter.vocabulary.bytes_of, ids)).decode(errors="replace")
