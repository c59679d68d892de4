"""Tool calls of Granite 3: `<|tool_call|>` and a list of JSON objects.

There is no closing marker. Where the marker is no token, the models write `<tool_call>`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER = "<|tool_call|>"


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER}[{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="granite",
    opener=_OPENER,
    other_openers=("<tool_call>",),
    other_closers=("</tool_call>",),
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(
        Closing(prefix_end='"arguments":', call_end="}]", call_separator=", ", block=(f"{_OPENER}[", "]")),
    ),
)
