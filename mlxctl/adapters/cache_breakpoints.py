"""The beginning of a conversation that is to be kept for longer than the rest. Pure."""

from collections.abc import Sequence
from dataclasses import replace

from mlxctl.ir import CacheBreakpoint, GenerationRequest, ToolChoice, ToolSpec

# Stands where a prompt goes on with other tools, or with none.
_OTHER_TOOL = ToolSpec(name="~", description="")


def breakpoint_prefix(request: GenerationRequest, longer: CacheBreakpoint) -> GenerationRequest:
    """Return a request whose prompt agrees with that of `request` to the end of this beginning, and then no
    further.
    """
    if not longer.num_messages:
        choice = request.tool_choice if request.tool_choice.mode == "none" else ToolChoice()
        return replace(request, tools=(*request.tools[: longer.num_tools], _OTHER_TOOL), tool_choice=choice)
    *before, last = request.messages[: longer.num_messages]
    kept = last.parts[: len(last.parts) - longer.num_parts_behind]
    return replace(request, messages=(*before, replace(last, parts=kept)))


def num_common(one: Sequence[int], other: Sequence[int]) -> int:
    """Return how many leading tokens agree."""
    pairs = enumerate(zip(one, other, strict=False))
    return next((place for place, (first, second) in pairs if first != second), min(len(one), len(other)))
