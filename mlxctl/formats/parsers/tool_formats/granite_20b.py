"""Tool calls of Granite 20B: `<function_call>` and a JSON object.

There is no closing marker.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER = "<function_call>"


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER} {{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="granite_20b",
    opener=_OPENER,
    closer="</function_call>",
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"arguments":', call_end="}"),),
    separator="\n",
)
