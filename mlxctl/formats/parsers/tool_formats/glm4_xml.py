"""Tool calls of GLM-4 and its fine-tunes: name and arguments tags.

`<tool_call><name>f</name><arguments>{"a": 1}</arguments></tool_call>`.
"""

import re

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody

_OPENER = "<tool_call>"

_HEAD = CallHead(
    pattern=re.compile(r"\s*<name>\s*(?P<name>[^\s<>{}]+)\s*</name>\s*<arguments>\s*"),
    may_begin=re.compile(r"\s*(?:<(?:n(?:a(?:m(?:e(?:>[^{}]*)?)?)?)?)?)?"),
    tails=("</arguments>",),
    opener="<name>",
)


def _open_body(opening: Opening) -> HeadedJsonBody:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}<name>" if name is None else f"{_OPENER}<name>{name}</name><arguments>"


TOOLS = ToolParser(
    id="glm4_xml",
    opener=_OPENER,
    closer="</tool_call>",
    open_body=_open_body,
    inner_markers=("<name>", "<arguments>"),
    forced_prefix=_force_call,
    separator="\n",
    closings=(Closing(prefix_end="<arguments>", call_end="</arguments></tool_call>"),),
)
