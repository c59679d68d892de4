"""Edits that shorten a conversation before its prompt is rendered."""

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearToolUses:
    """Removal of the results of earlier tool calls.

    It applies to a prompt of more than `trigger_tokens` tokens, or to a conversation of more than
    `trigger_calls` calls if that is set, and only if it removes at least `min_cleared_tokens`. The last
    `num_kept` results stay, and all results of `kept_tools`. The arguments of the calls of `cleared_inputs`
    are removed too; None means of all tools.
    """

    trigger_tokens: int = 100_000
    trigger_calls: int | None = None
    num_kept: int = 3
    min_cleared_tokens: int = 0
    kept_tools: frozenset[str] = frozenset()
    cleared_inputs: frozenset[str] | None = frozenset()


@dataclass(frozen=True, slots=True, kw_only=True)
class ClearThinking:
    """Removal of the thinking of earlier answers.

    The last `num_kept` answers with thinking keep it.
    """

    num_kept: int = 1


ContextEdit = ClearToolUses | ClearThinking


@dataclass(frozen=True, slots=True, kw_only=True)
class AppliedEdit:
    """What an edit removed.

    `num_cleared` counts tool results, or answers whose thinking was removed; together they were `num_tokens`
    prompt tokens.
    """

    kind: Literal["tool_uses", "thinking"]
    num_cleared: int
    num_tokens: int
