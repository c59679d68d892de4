"""The part of a prompt with a longer cache TTL. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from mlxctl.ir import CacheBreakpoint, GenerationRequest, ToolChoice, ToolSpec

# Makes the prompt differ right after the breakpoint.
_OTHER_TOOL = ToolSpec(name="~", description="")


def breakpoint_prefix(request: GenerationRequest, long_ttl: CacheBreakpoint) -> GenerationRequest:
    """Return a request whose prompt is the same up to the breakpoint."""
    if not long_ttl.num_messages:
        choice = request.tool_choice if request.tool_choice.mode == "none" else ToolChoice()
        return replace(request, tools=(*request.tools[: long_ttl.num_tools], _OTHER_TOOL), tool_choice=choice)
    *before, last = request.messages[: long_ttl.num_messages]
    parts = last.parts[: len(last.parts) - long_ttl.num_excluded_parts]
    return replace(request, messages=(*before, replace(last, parts=parts)))


def num_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of equal leading tokens."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((index for index, (first, second) in pairs if first != second), min(len(one), len(other)))
