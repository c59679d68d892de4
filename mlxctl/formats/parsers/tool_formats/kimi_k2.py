"""Tool calls of Kimi K2: a section of calls with JSON arguments.

`<|tool_call_begin|>functions.f:0<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|>`.
"""

import re

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody

_SECTION, _CALL, _ARGUMENTS, _CALL_END = (
    "<|tool_calls_section_begin|>", "<|tool_call_begin|>", "<|tool_call_argument_begin|>", "<|tool_call_end|>"
)  # fmt: skip

_SECTION_END = "<|tool_calls_section_end|>"

_HEAD = CallHead(
    pattern=re.compile(
        r"\s*(?:<\|tool_call_begin\|>)?\s*(?:functions\.)?(?P<name>[^\s<|{}]+?)(?::\d+)?\s*<\|tool_call_argument_begin\|>\s*"
    ),
    may_begin=re.compile(r"\s*(?:<[|\w]*>?)?\s*[^\s<|{}]*\s*(?:<[|\w]*>?)?\s*"),
    tails=(_CALL_END,),
    opener=_CALL,
)


def _open_body(opening: Opening) -> HeadedJsonBody:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_call(name: str | None) -> str:
    begin = f"{_SECTION}{_CALL}functions."
    return begin if name is None else f"{begin}{name}:0{_ARGUMENTS}"


TOOLS = ToolParser(
    id="kimi_k2",
    opener=_SECTION,
    other_openers=(_CALL, "functions."),
    closer=_SECTION_END,
    open_body=_open_body,
    inner_markers=(_ARGUMENTS, _CALL_END),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end=_ARGUMENTS,
            call_end=f"{_CALL_END}{_SECTION_END}",
            call_separator="",
            block=(_SECTION, _SECTION_END),
            counter=(":", _ARGUMENTS),
        ),
    ),
)
