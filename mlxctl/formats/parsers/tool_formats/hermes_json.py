"""Tool calls of Hermes, Qwen 2.5, Qwen3, Granite 4 and others.

JSON between `<tool_call>` and `</tool_call>`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER = "<tool_call>"


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools)


def force_call(name: str | None) -> str:
    """Open a block and, for a named tool, continue to its arguments.

    There is no space at the end: the model's next token has it.
    """
    if name is None:
        return _OPENER + "\n"
    return f'{_OPENER}\n{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="hermes_json",
    opener=_OPENER,
    closer="</tool_call>",
    open_body=_open_body,
    forced_prefix=force_call,
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"arguments":', call_end="}\n</tool_call>"),),
    separator="\n",
)
