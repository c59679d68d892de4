"""Tool calls of Seed-OSS: Qwen3-Coder's in another outer tag."""

from dataclasses import replace

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.tagged_calls import TaggedCallsBody
from mlxctl.formats.parsers.tool_formats.qwen3_coder import NOTATION, TAGS

_OPENER = "<seed:tool_call>"
# Values are not on lines of their own: a line break only after one is part of it.
_TAGS = replace(TAGS, block_opener=_OPENER, trims_sides_alone=False)


def _open_body(opening: Opening) -> TaggedCallsBody:
    return TaggedCallsBody(_TAGS, opening.tools)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}\n<function=" if name is None else f"{_OPENER}\n<function={name}>\n"


TOOLS = ToolParser(
    id="seed_oss",
    opener=_OPENER,
    closer="</seed:tool_call>",
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(Closing(prefix_end=">\n", call_end="</function>\n</seed:tool_call>", notation=NOTATION),),
    separator="\n",
)
