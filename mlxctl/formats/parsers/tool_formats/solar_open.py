"""Tool calls of Solar Open: id, name and JSON arguments.

`<|tool_calls|><|tool_call:begin|>a1b2c3d4e5<|tool_call:name|>f<|tool_call:args|>{"a": 1}<|tool_call:end|>`,
then `<|calls|>`.
"""

import re

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody

_CALLS, _CALL, _NAME, _ARGUMENTS, _CALL_END, _CALLS_END = (
    "<|tool_calls|>", "<|tool_call:begin|>", "<|tool_call:name|>",
    "<|tool_call:args|>", "<|tool_call:end|>", "<|calls|>",
)  # fmt: skip
# Ten lowercase letters and digits, as the templates ask for.
_ANY_ID = "call000000"

_HEAD = CallHead(
    pattern=re.compile(
        r"\s*(?:<\|tool_call:begin\|>)?[^<>{}]*<\|tool_call:name\|>\s*(?P<name>[^\s<|{}]+)\s*<\|tool_call:args\|>\s*"
    ),
    may_begin=re.compile(r"\s*(?:[^<>{}]*(?:<[^<>{}]*>?)?){0,4}"),
    tails=(_CALL_END,),
    opener=_CALL,
)


def _open_body(opening: Opening) -> HeadedJsonBody:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_call(name: str | None) -> str:
    begin = f"{_CALLS}{_CALL}{_ANY_ID}{_NAME}"
    return begin if name is None else f"{begin}{name}{_ARGUMENTS}"


TOOLS = ToolParser(
    id="solar_open",
    opener=_CALLS,
    other_openers=(_CALL,),
    closer=_CALLS_END,
    open_body=_open_body,
    inner_markers=(_NAME, _ARGUMENTS, _CALL_END),
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end=_ARGUMENTS,
            call_end=f"{_CALL_END}{_CALLS_END}",
            call_separator="",
            block=(_CALLS, _CALLS_END),
        ),
    ),
)
