"""Tool calls of Llama 3.x fine-tunes: `<function=f>{"a": 1}</function>`."""

import re

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody

_OPENER, _CLOSER = "<function=", "</function>"

_HEAD = CallHead(
    pattern=re.compile(r"\s*(?P<name>[^\s<>{}]+)\s*>\s*"),
    may_begin=re.compile(r"\s*[^\s<>{}]*\s*>?\s*"),
    tails=(_CLOSER,),
    opener=_OPENER,
)


def _open_body(opening: Opening) -> HeadedJsonBody:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}>"


TOOLS = ToolParser(
    id="llama_xml",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(Closing(prefix_end=">", call_end=_CLOSER, call_separator=""),),
)
