"""Tool calls of Jamba, MiniMax M1 and others: JSON in `<tool_calls>`.

MiniMax M1 writes one object per line; Jamba, Hunyuan A13B and Apriel write a list.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _CLOSER = "<tool_calls>", "</tool_calls>"
_SYNTAX = CallObject(separators=",")


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _SYNTAX)


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
            prefix_start=f"{_OPENER}[\n",
            prefix_end='"arguments":',
            call_end=f"}}\n]{_CLOSER}",
            call_separator=",\n    ",
            block=(f"{_OPENER}[\n    ", f"\n]{_CLOSER}"),
        ),
        Closing(
            prefix_start=f"{_OPENER}[",
            prefix_end='"arguments":',
            call_end=f"}}]{_CLOSER}",
            call_separator=", ",
            block=(f"{_OPENER}[", f"]{_CLOSER}"),
        ),
        Closing(
            prefix_end='"arguments":',
            call_end=f"}}\n{_CLOSER}",
            call_separator="\n",
            block=(f"{_OPENER}\n", f"\n{_CLOSER}"),
        ),
    ),
)
