"""Tool calls of Firefunction: `functools` and a list of JSON objects."""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER = "functools["


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, is_in_list=True)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER}{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="functools",
    opener=_OPENER,
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"arguments":', call_end="}]", call_separator=", ", block=(_OPENER, "]")),),
)
