"""Anthropic's `context_management`: the edits of a request and the report about them."""

from collections.abc import Iterable
from typing import Annotated, Literal, assert_never

from msgspec import Meta, Struct

from mlxctl.ir import AppliedEdit, ClearThinking, ClearToolUses, ContextEdit
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.ranges import Name, ToolLimit

Count = Annotated[int, Meta(ge=0, le=2**53)]
ToolNames = Annotated[list[Name], ToolLimit]


class Amount(Struct):
    """A number with its unit as `type`."""

    value: Count


class InputTokens(Amount, tag_field="type", tag="input_tokens"):
    """A number of prompt tokens."""


class ToolUses(Amount, tag_field="type", tag="tool_uses"):
    """A number of tool calls."""


class ThinkingTurns(Amount, tag_field="type", tag="thinking_turns"):
    """A number of answers with thinking."""


class AllThinkingTurns(Struct, tag_field="type", tag="all"):
    """All answers with thinking."""


class ClearToolUsesEdit(Struct, tag_field="type", tag="clear_tool_uses_20250919"):
    """Removes the results of earlier tool calls from a long prompt."""

    trigger: InputTokens | ToolUses | None = None
    keep: ToolUses | None = None
    clear_at_least: InputTokens | None = None
    exclude_tools: ToolNames | None = None
    clear_tool_inputs: bool | ToolNames | None = None


class ClearThinkingEdit(Struct, tag_field="type", tag="clear_thinking_20251015"):
    """Removes the thinking of earlier answers."""

    keep: ThinkingTurns | AllThinkingTurns | Literal["all"] | None = None


class CompactEdit(Struct, tag_field="type", tag="compact_20260112"):
    """A summary of the conversation; refused by name."""


Edit = ClearToolUsesEdit | ClearThinkingEdit | CompactEdit


class ContextManagement(Struct):
    """The edits of a request."""

    edits: Annotated[list[Edit], Meta(max_length=16)] | None = None


class ClearedToolUses(Struct, tag_field="type", tag="clear_tool_uses_20250919"):
    """What the removal of tool results saved."""

    cleared_tool_uses: int
    cleared_input_tokens: int


class ClearedThinking(Struct, tag_field="type", tag="clear_thinking_20251015"):
    """What the removal of thinking saved."""

    cleared_thinking_turns: int
    cleared_input_tokens: int


class ContextManagementReport(Struct):
    """The edits that changed the prompt of a request."""

    applied_edits: list[ClearedToolUses | ClearedThinking]


def context_edits(management: ContextManagement | None) -> tuple[ContextEdit, ...]:
    """Translate the edits of a request. Raises InvalidRequest."""
    edits = (management and management.edits) or ()
    return tuple(_translated(edits))


def report(applied: Iterable[AppliedEdit]) -> ContextManagementReport:
    """Return the report about the applied edits."""
    return ContextManagementReport(
        [
            ClearedToolUses(edit.num_cleared, edit.num_tokens)
            if edit.kind == "tool_uses"
            else ClearedThinking(edit.num_cleared, edit.num_tokens)
            for edit in applied
        ]
    )


def _translated(edits: Iterable[Edit]) -> Iterable[ContextEdit]:
    for index, edit in enumerate(edits):
        match edit:
            case ClearToolUsesEdit():
                yield _clear_tool_uses(edit)
            case ClearThinkingEdit(keep="all") | ClearThinkingEdit(keep=AllThinkingTurns()):
                pass
            case ClearThinkingEdit(keep=ThinkingTurns(value=number)):
                yield ClearThinking(num_kept=number)
            case ClearThinkingEdit():
                yield ClearThinking()
            case CompactEdit():
                path = f"context_management.edits[{index}].type"
                raise InvalidRequest(
                    f"{path} compact_20260112 is not supported; use clear_tool_uses_20250919, or set "
                    "context_overflow to 'compact'",
                    param=path,
                )
            case _:
                assert_never(edit)


def _clear_tool_uses(edit: ClearToolUsesEdit) -> ClearToolUses:
    defaults = ClearToolUses()
    inputs = edit.clear_tool_inputs
    return ClearToolUses(
        trigger_tokens=edit.trigger.value
        if isinstance(edit.trigger, InputTokens)
        else defaults.trigger_tokens,
        trigger_calls=edit.trigger.value if isinstance(edit.trigger, ToolUses) else None,
        num_kept=defaults.num_kept if edit.keep is None else edit.keep.value,
        min_cleared_tokens=0 if edit.clear_at_least is None else edit.clear_at_least.value,
        kept_tools=frozenset(edit.exclude_tools or ()),
        cleared_inputs=None if inputs is True else frozenset(inputs or ()),
    )
