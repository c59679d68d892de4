"""Tool calls of Functionary 3.2: messages `>>>f`.

The arguments follow on the next line; text is a message to `all`.
"""

import re

from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.headed_json import CallHead, HeadedJsonBody

_OPENER = ">>>"

_HEAD = CallHead(
    pattern=re.compile(r"(?P<name>[\w.:-]+)[ \t]*\n\s*"),
    may_begin=re.compile(r"[\w.:-]*[ \t]*(?:\n\s*)?"),
    opener=_OPENER,
    is_bare=True,
)


def _open_body(opening: Opening) -> BodyReader:
    return HeadedJsonBody(_HEAD, opening.tools)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}\n"


TOOLS = ToolParser(
    id="functionary",
    opener=_OPENER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(Closing(prefix_start=_OPENER, prefix_end="\n", call_end="", call_separator=""),),
)
