"""The first differing token of two prompts: position, context and cause. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.formats.adapters.templates.agent_headers import find_volatile
from mlxctl.inference.cache.differences import ChangeReason, PromptChange, find_change
from mlxctl.inference.cache.prompt_sections import (
    PROMPT,
    PromptSection,
    collapse_images,
    find_section,
)
from mlxctl.inference.cache.realignment import realign
from mlxctl.inference.cache.recent_prompts import RecordedPrompt
from mlxctl.inference.cache.token_text import comparable_ids

MissReason = Literal[ChangeReason, "head_changed", "volatile_header", "bpe_seam", "image_changed"]

_NUM_NEIGHBORS = 12


@dataclass(frozen=True, slots=True, kw_only=True)
class Divergence:
    """The difference at token `position`.

    `before` is the text before it, `here` the text after it, `there` the text of the earlier request after
    it. `place` names the message or tool; `message` and `tool` are their indexes; `part` is the changed part.
    `num_changed_tokens` replace `num_replaced_tokens` earlier ones until both prompts agree again; None if
    they never do. `num_same_later_tokens` after the difference are the same, but must be computed again.
    """

    position: int
    reason: MissReason
    place: str
    before: str
    here: str
    there: str
    message: int | None = None
    tool: int | None = None
    part: str | None = None
    num_changed_tokens: int | None = None
    num_replaced_tokens: int | None = None
    num_same_later_tokens: int = 0


def find_divergence(
    recorded: RecordedPrompt, other: RecordedPrompt, position: int, adapter: ModelAdapter
) -> Divergence:
    """Describe the difference of two prompts that agree up to token `position`."""
    ids, other_ids = recorded.prompt_ids, other.token_ids
    reason, section = _cause(recorded, other, position, adapter)
    # Different images have the same ids, so compare their digests.
    one, another = (
        comparable_ids(tokens, of.salts, 0) for tokens, of in ((ids, recorded), (other_ids, other))
    )
    realigned = realign(one, another, position, num_other_prompt=len(other.prompt_ids))
    return Divergence(
        position=position,
        reason=reason,
        place=section.name,
        before=_text(adapter, ids[max(0, position - _NUM_NEIGHBORS) : position]),
        here=_text(adapter, ids[position : position + _NUM_NEIGHBORS]),
        there=_text(adapter, other_ids[position : position + _NUM_NEIGHBORS]),
        message=section.message,
        tool=section.tool,
        part=section.part,
        num_changed_tokens=realigned.num_changed,
        num_replaced_tokens=realigned.num_replaced,
        num_same_later_tokens=realigned.num_same_later,
    )


def _cause(
    recorded: RecordedPrompt, other: RecordedPrompt, position: int, adapter: ModelAdapter
) -> tuple[MissReason, PromptSection]:
    if _is_at_image(recorded, position) and _is_at_image(other, position):
        return "image_changed", replace(_section(recorded, position, adapter), part="image")
    if _is_seam(recorded.prompt_ids[position:], other.token_ids[position:], adapter):
        return "bpe_seam", _section(recorded, position, adapter)
    change = PromptChange(reason="message_changed", section=PROMPT)
    if recorded.request.messages and other.request.messages:
        change = find_change(recorded.request, other.request, _text(adapter, other.answer_ids), adapter)
    if _is_in_volatile_line(recorded, other, position, adapter):
        return "volatile_header", change.section
    return change.reason, change.section


def _is_at_image(recorded: RecordedPrompt, position: int) -> bool:
    return any(salt.start == position for salt in recorded.salts)


def _section(recorded: RecordedPrompt, position: int, adapter: ModelAdapter) -> PromptSection:
    """Return the message or tool of a token."""
    num_chars = len(_text(adapter, collapse_images(recorded.prompt_ids, recorded.salts, position)))
    return find_section(recorded.request, num_chars, adapter)


def _is_seam(ids: Sequence[int], other_ids: Sequence[int], adapter: ModelAdapter) -> bool:
    """Whether the texts agree and only the token boundaries differ."""
    bytes_of = adapter.vocabulary.bytes_of
    longest = max(len(bytes_of(ids[0])), len(bytes_of(other_ids[0])))
    one, another = (b"".join(map(bytes_of, run[: longest + 1])) for run in (ids, other_ids))
    return min(len(one), len(another)) >= longest > 0 and one[:longest] == another[:longest]


def _is_in_volatile_line(
    recorded: RecordedPrompt, other: RecordedPrompt, position: int, adapter: ModelAdapter
) -> bool:
    for ids in (recorded.prompt_ids, other.token_ids):
        text, num_chars = _text(adapter, ids), len(_text(adapter, ids[:position]))
        start = text.rfind("\n", 0, num_chars) + 1
        line = text[start:].split("\n", 1)[0]
        span = find_volatile(line)
        if span is not None and span[0] <= num_chars - start <= span[1]:
            return True
    return False


def _text(adapter: ModelAdapter, ids: Sequence[int]) -> str:
    return b"".join(map(adapter.vocabulary.bytes_of, ids)).decode(errors="replace")
