"""Tool calls of GigaChat 3: one JSON object.

In a message with the role `function call`, or after `<|function_call|>`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_TOKEN, _MESSAGE_END = "<|function_call|>", "<|message_sep|>"
_ROLE = "function call<|role_sep|>\n"
_MESSAGE = f"{_MESSAGE_END}\n\n{_ROLE}"


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools)


def _force_token(name: str | None) -> str:
    return _TOKEN if name is None else f'{_TOKEN}{{"name": {quote(name)}, "arguments":'


def _force_message(name: str | None) -> str:
    return _MESSAGE if name is None else f'{_MESSAGE}{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="gigachat3",
    opener=_TOKEN,
    other_openers=(_MESSAGE, _ROLE),
    closer=_MESSAGE_END,
    open_body=_open_body,
    forced_prefix=_force_token,
    dialects=(_force_message,),
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"arguments":', call_end="}"),),
)
