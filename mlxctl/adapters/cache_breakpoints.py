"""The part of a prompt with a longer cache TTL. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from mlxctl.ir import CacheBreakpoint, GenerationRequest, ToolChoice, ToolSpec

# Makes the prompt differ right after the breakpoint.
_OTHER_TOOL = ToolSpec(name="~", description="")


def breakpoint_prefix(request: GenerationRequest, longer: CacheBreakpoint) -> GenerationRequest:
    """Return a request whose prompt is the same up to the breakpoint."""
    if not longer.num_messages:
        choice = request.tool_choice if request.tool_choice.mode == "none" else ToolChoice()
        return replace(request, tools=(*request.tools[: longer.num_tools], _OTHER_TOOL), tool_choice=choice)
    *before, last = request.messages[: longer.num_messages]
    kept = last.parts[: len(last.parts) - longer.num_parts_behind]
    return replace(request, messages=(*before, replace(last, parts=kept)))


def num_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return the number of equal leading tokens."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (first, second) in pairs if first != second), min(len(one), len(other)))
