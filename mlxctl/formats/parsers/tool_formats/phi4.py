"""Tool calls of Phi-4-mini: a list of JSON objects.

Between `<|tool_call|>` and `<|/tool_call|>`, or after `functools`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _CLOSER, _WORD = "<|tool_call|>", "<|/tool_call|>", "functools["


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, is_in_list=opening.marker == _WORD)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER}[{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="phi4",
    opener=_OPENER,
    other_openers=(_WORD,),
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(
        Closing(
            prefix_end='"arguments":',
            call_end=f"}}]{_CLOSER}",
            call_separator=", ",
            block=(f"{_OPENER}[", f"]{_CLOSER}"),
        ),
    ),
)
