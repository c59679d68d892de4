"""Tool calls as JSON objects between `<tool_calls>` and `</tool_calls>`.

MiniMax M1 puts each on a line of its own; Jamba, Hunyuan A13B and Apriel write a list.
"""

from mlxctl.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.parsers.json_value import quote

_OPENER, _CLOSER = "<tool_calls>", "</tool_calls>"
_FORM = CallObject(separators=",")


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _FORM)


def _force_list(name: str | None) -> str:
    return f"{_OPENER}[" if name is None else f'{_OPENER}[{{"name": {quote(name)}, "arguments":'


def _force_lines(name: str | None) -> str:
    return f"{_OPENER}\n" if name is None else f'{_OPENER}\n{{"name": {quote(name)}, "arguments":'


def _force_spread_list(name: str | None) -> str:
    return f"{_OPENER}[\n    " if name is None else f'{_OPENER}[\n    {{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="tool_calls_json",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_list,
    dialects=(_force_lines, _force_spread_list),
    closings=(
        Closing(
            begin=f"{_OPENER}[\n",
            behind='"arguments":',
            text=f"}}\n]{_CLOSER}",
            joint=",\n    ",
            block=(f"{_OPENER}[\n    ", f"\n]{_CLOSER}"),
        ),
        Closing(
            begin=f"{_OPENER}[",
            behind='"arguments":',
            text=f"}}]{_CLOSER}",
            joint=", ",
            block=(f"{_OPENER}[", f"]{_CLOSER}"),
        ),
        Closing(
            behind='"arguments":', text=f"}}\n{_CLOSER}", joint="\n", block=(f"{_OPENER}\n", f"\n{_CLOSER}")
        ),
    ),
)
