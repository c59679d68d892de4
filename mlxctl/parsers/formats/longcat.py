"""Tool calls of LongCat: JSON objects in `<longcat_tool_call>`."""

from mlxctl.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.parsers.json_calls import JsonCallsBody
from mlxctl.parsers.json_value import quote

_OPENER, _CLOSER = "<longcat_tool_call>", "</longcat_tool_call>"


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}\n" if name is None else f'{_OPENER}\n{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="longcat",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"arguments":', call_end=f"}}\n{_CLOSER}"),),
    separator="\n",
)
