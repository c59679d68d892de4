"""Removal of tool results and thinking by context edits. Pure."""

from collections.abc import Container
from dataclasses import replace
from typing import TypeVar

from mlxctl.formats.adapters.prepared import NormalizedRequest
from mlxctl.inference.preparation.context_overflow import REMOVED, CountTokens
from mlxctl.ir import (
    AppliedEdit,
    ClearThinking,
    ClearToolUses,
    ContextEdit,
    Message,
    Part,
    ThinkingPart,
    ToolCallPart,
    ToolResultPart,
)

Value = TypeVar("Value")


def edit_context(
    request: NormalizedRequest, count_tokens: CountTokens
) -> tuple[NormalizedRequest, tuple[AppliedEdit, ...]]:
    """Return the edited request and what each edit removed.

    Counts tokens only if an edit has something to remove.
    """
    applied: list[AppliedEdit] = []
    num_tokens: int | None = None
    for edit in request.context_edits:
        edited, num_cleared = _edited(request, edit)
        if not num_cleared:
            continue
        if num_tokens is None:
            num_tokens = count_tokens(request)
        if isinstance(edit, ClearToolUses) and not _is_triggered(edit, request, num_tokens):
            continue
        num_left = count_tokens(edited)
        if isinstance(edit, ClearToolUses) and num_tokens - num_left < edit.min_cleared_tokens:
            continue
        applied.append(
            AppliedEdit(
                kind="tool_uses" if isinstance(edit, ClearToolUses) else "thinking",
                num_cleared=num_cleared,
                num_tokens=num_tokens - num_left,
            )
        )
        request, num_tokens = edited, num_left
    return request, tuple(applied)


def _is_triggered(edit: ClearToolUses, request: NormalizedRequest, num_tokens: int) -> bool:
    if edit.trigger_calls is None:
        return num_tokens > edit.trigger_tokens
    return sum(len(message.tool_calls) for message in request.messages) > edit.trigger_calls


def _edited(request: NormalizedRequest, edit: ContextEdit) -> tuple[NormalizedRequest, int]:
    """Return the edited request, and how many results or answers changed."""
    if isinstance(edit, ClearThinking):
        thinking = [index for index, message in enumerate(request.messages) if message.thinking]
        cleared = frozenset(_all_but_last(thinking, edit.num_kept))
        messages = tuple(
            _without_thinking(message) if index in cleared else message
            for index, message in enumerate(request.messages)
        )
        return replace(request, messages=messages), len(cleared)
    names = {call.id: call.name for message in request.messages for call in message.tool_calls}
    results = [result for message in request.messages for result in message.tool_results]
    ids = frozenset(
        result.call_id
        for result in _all_but_last(results, edit.num_kept)
        if names.get(result.call_id) not in edit.kept_tools and result.content != (REMOVED,)
    )
    messages = tuple(
        replace(message, parts=tuple(_cleared(part, edit, ids) for part in message.parts))
        for message in request.messages
    )
    return replace(request, messages=messages), len(ids)


def _all_but_last(values: list[Value], number: int) -> list[Value]:
    return values[: max(0, len(values) - number)]


def _without_thinking(message: Message) -> Message:
    return replace(message, parts=tuple(part for part in message.parts if not isinstance(part, ThinkingPart)))


def _cleared(part: Part, edit: ClearToolUses, call_ids: Container[str]) -> Part:
    """Return a part, without its content if its call is cleared."""
    if isinstance(part, ToolResultPart) and part.call_id in call_ids:
        return replace(part, content=(REMOVED,))
    if isinstance(part, ToolCallPart) and part.id in call_ids:
        clears_input = edit.cleared_inputs is None or part.name in edit.cleared_inputs
        return replace(part, arguments="{}") if clears_input else part
    return part
