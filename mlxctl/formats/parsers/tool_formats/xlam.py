"""Tool calls of xLAM: a list of JSON objects.

At the start of the answer or of a code block, or after the marker of another format. Without such a marker,
only calls of available tools count.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_MARKERS = ("[TOOL_CALLS]", "<tool_call>")
_BARE = CallObject(is_bare=True)


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools) if opening.marker in _MARKERS else JsonCallsBody(opening.tools, _BARE)


def _force_call(name: str | None) -> str:
    return "[" if name is None else f'[{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="xlam",
    opener=_MARKERS[0],
    other_openers=(*_MARKERS[1:], "```json"),
    closer="```",
    other_closers=("</tool_call>",),
    bare_openers="[{",
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"arguments":', call_end="}]", call_separator=", ", block=("[", "]")),),
)
