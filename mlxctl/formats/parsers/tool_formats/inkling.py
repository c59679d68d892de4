"""Tool calls of Inkling: a message with a JSON object.

`<|message_model|>f<|content_invoke_tool_json|>{"name": "f", "args": {"a": 1}}<|end_message|>`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _CLOSER = "<|content_invoke_tool_json|>", "<|end_message|>"
_SYNTAX = CallObject(argument_keys=("args", "arguments", "parameters"))


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _SYNTAX)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f'{_OPENER}{{"name":{quote(name)},"args":'


TOOLS = ToolParser(
    id="inkling",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(Closing(prefix_end='"args":', call_end=f"}}{_CLOSER}"),),
    separator="<|message_model|>",
)
