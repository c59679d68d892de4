"""Cause of a prompt's first difference from an earlier one. Pure.

Requests are compared field by field. The cause is the change that, undone, moves the first difference further
back; if none does, the chat template renders the same message differently.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from mlxctl.formats.adapters import ModelAdapter
from mlxctl.formats.adapters.prepared import NormalizedRequest
from mlxctl.inference.cache.prompt_sections import (
    GENERATION_PROMPT,
    PromptSection,
    find_section,
    message_section,
    rendered,
    tool_section,
)
from mlxctl.ir import (
    DocumentPart,
    ImagePart,
    Message,
    Part,
    RemoteImagePart,
    TextPart,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
    ToolSpec,
    VideoPart,
)
from mlxctl.ir.tokens import common_length

ChangeReason = Literal[
    "tool_order",
    "tools_changed",
    "options_changed",
    "message_changed",
    "message_inserted",
    "message_removed",
    "template_rewrite",
]

# Each trial renders the conversation again.
_MAX_TRIALS = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptChange:
    """The cause, and its section in the newer request."""

    reason: ChangeReason
    section: PromptSection


def find_change(
    newer: NormalizedRequest, older: NormalizedRequest, answer: str, adapter: ModelAdapter
) -> PromptChange:
    """Return why the newer prompt differs from the older and its answer."""
    text = adapter.prompt_text(newer)
    older_prompt = rendered(older, adapter) or ""
    older_text = older_prompt + answer
    num_agreeing = common_length(text, older_text)
    # The answer in the newer request replaces the generated one.
    for undone, change in _changes(newer, older):
        other = rendered(undone, adapter)
        # Options can change only what follows the older prompt, where its answer stands.
        if other is not None and (
            common_length(other, older_text) > num_agreeing or other == older_prompt != text
        ):
            return _narrow_change(change, newer, older, older_text, num_agreeing, adapter)
    section = find_section(newer, num_agreeing, adapter)
    num_shared = _num_shared(newer.messages, older.messages)
    if (
        section.message is not None
        and section.message >= num_shared
        and not _is_answer(newer, older, section.message, answer)
    ):
        return _message_change(newer, older, section.message)
    if section == GENERATION_PROMPT and num_shared == len(newer.messages) < len(older.messages):
        return PromptChange(reason="message_removed", section=message_section(older.messages, num_shared))
    return PromptChange(reason="template_rewrite", section=section)


def _changes(
    newer: NormalizedRequest, older: NormalizedRequest
) -> Iterator[tuple[NormalizedRequest, PromptChange]]:
    """Yield every difference: the newer request with it undone, and its description."""
    options = {
        "thinking": older.thinking,
        "tool_choice": older.tool_choice,
        "template_kwargs": older.template_kwargs,
    }
    names = [name for name, value in options.items() if getattr(newer, name) != value]
    if names:
        section = replace(GENERATION_PROMPT, part=", ".join(names))
        undone = replace(
            newer,
            thinking=older.thinking,
            tool_choice=older.tool_choice,
            template_kwargs=older.template_kwargs,
        )
        yield undone, PromptChange(reason="options_changed", section=section)
    if newer.tools != older.tools:
        yield replace(newer, tools=older.tools), _tool_change(newer.tools, older.tools)
    pairs = enumerate(zip(newer.messages, older.messages, strict=False))
    differing = [index for index, (one, other) in pairs if one != other]
    # Call ids and signatures change each time, and few templates render them.
    differing.sort(key=lambda index: _visible(newer.messages[index]) == _visible(older.messages[index]))
    for index in differing[:_MAX_TRIALS]:
        messages = (*newer.messages[:index], older.messages[index], *newer.messages[index + 1 :])
        yield replace(newer, messages=messages), _message_change(newer, older, index)


def _tool_change(tools: Sequence[ToolSpec], before: Sequence[ToolSpec]) -> PromptChange:
    index = _num_shared(tools, before)
    if len(tools) == len(before) and sorted(tools, key=repr) == sorted(before, key=repr):
        return PromptChange(reason="tool_order", section=tool_section(tools, index))
    if index >= len(tools) or index >= len(before):
        return PromptChange(
            reason="tools_changed", section=tool_section(tools if index < len(tools) else before, index)
        )
    one, other = tools[index], before[index]
    names = [
        name for name in ("name", "description", "parameters") if getattr(one, name) != getattr(other, name)
    ]
    part = None if "name" in names else ", ".join(names) or None
    return PromptChange(reason="tools_changed", section=tool_section(tools, index, part=part))


def _message_change(newer: NormalizedRequest, older: NormalizedRequest, index: int) -> PromptChange:
    messages, before = newer.messages, older.messages
    if index >= len(before):
        return PromptChange(reason="message_changed", section=message_section(messages, index))
    reason: ChangeReason = "message_changed"
    num_behind = min(len(messages), len(before)) - index - 1
    if num_behind and all(map(_are_similar, messages[index + 1 :], before[index + 1 :])):
        pass
    elif _occurs_in(messages[index:], before[index + 1 :]):
        reason = "message_removed"
    elif _occurs_in(before[index:], messages[index + 1 :]):
        reason = "message_inserted"
    part = _changed_part(messages[index], before[index]) if reason == "message_changed" else None
    return PromptChange(reason=reason, section=message_section(messages, index, part=part))


def _occurs_in(messages: Sequence[Message], others: Sequence[Message]) -> bool:
    """Whether the messages occur in the others, unchanged and in order."""
    for start in range(len(others)):
        num = min(len(messages), len(others) - start)
        if num and all(map(_are_similar, messages[:num], others[start : start + num])):
            return True
    return False


def _are_similar(one: Message, other: Message) -> bool:
    return one == other or _visible(one) == _visible(other)


def _narrow_change(
    change: PromptChange,
    newer: NormalizedRequest,
    older: NormalizedRequest,
    older_text: str,
    num_agreeing: int,
    adapter: ModelAdapter,
) -> PromptChange:
    """Return the change with the part that causes the difference.

    Applies if several parts of a message changed.
    """
    index = change.section.message
    if change.reason != "message_changed" or index is None:
        return change
    message, before = newer.messages[index], older.messages[index]
    pairs = list(zip(message.parts, before.parts, strict=False))
    differing = [number for number, (one, other) in enumerate(pairs) if one != other]
    if message.role != before.role or len(message.parts) != len(before.parts) or len(differing) < 2:
        return change
    for number in differing[:_MAX_TRIALS]:
        parts = (*message.parts[:number], before.parts[number], *message.parts[number + 1 :])
        messages = (*newer.messages[:index], replace(message, parts=parts), *newer.messages[index + 1 :])
        other = rendered(replace(newer, messages=messages), adapter)
        if other is not None and common_length(other, older_text) > num_agreeing:
            return replace(change, section=replace(change.section, part=_part_name(*pairs[number])))
    return change


def _changed_part(message: Message, before: Message) -> str | None:
    if message.role != before.role:
        return "role"
    for one, other in zip(message.parts, before.parts, strict=False):
        if one != other and _visible_part(one) != _visible_part(other):
            return _part_name(one, other)
    num = min(len(message.parts), len(before.parts))
    longer = message.parts if len(message.parts) > num else before.parts
    return _part_name(longer[num], longer[num]) if len(longer) > num else None


def _part_name(part: Part, before: Part) -> str:
    match part:
        case TextPart():
            return "text"
        case ThinkingPart():
            return "thinking"
        case ToolCallPart():
            same_name = isinstance(before, ToolCallPart) and part.name == before.name
            return (
                f"arguments of the call of {part.name}"
                if same_name and part != before
                else f"call of {part.name}"
            )
        case ToolResultPart():
            return "tool result"
        case ImagePart() | RemoteImagePart(video=None):
            return "image"
        case VideoPart() | RemoteImagePart():
            return "video"
        case DocumentPart():
            return "document"
    return "audio"


def _visible(message: Message) -> Message:
    return replace(message, parts=tuple(map(_visible_part, message.parts)))


def _visible_part(part: Part) -> Part:
    match part:
        case ToolCallPart():
            return replace(part, id="")
        case ToolResultPart():
            return replace(part, call_id="")
        case ThinkingPart():
            return replace(part, signature=None)
    return part


def _is_answer(newer: NormalizedRequest, older: NormalizedRequest, index: int, answer: str) -> bool:
    """Whether the message is the answer to the older request, verbatim."""
    if index != len(older.messages):
        return False
    message = newer.messages[index]
    words = [message.text.strip(), *(call.name for call in message.tool_calls)]
    return message.role == "assistant" and any(words) and all(text in answer for text in words)


def _num_shared(one: Sequence[object], other: Sequence[object]) -> int:
    pairs = zip(one, other, strict=False)
    return next(
        (index for index, (first, second) in enumerate(pairs) if first != second), min(len(one), len(other))
    )
