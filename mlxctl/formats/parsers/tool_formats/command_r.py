"""Tool calls of Cohere: JSON objects with `tool_name` and `parameters`.

Command A and R7B write a list between `<|START_ACTION|>` and `<|END_ACTION|>`, Command R and R+ a code block
after `Action:`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _CLOSER = "<|START_ACTION|>", "<|END_ACTION|>"
_ACTION = "Action:```json\n["
_SYNTAX = CallObject(name_keys=("tool_name", "name"), argument_keys=("parameters", "arguments"))


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _SYNTAX)


def _force_call(name: str | None) -> str:
    return (
        _OPENER
        if name is None
        else f'{_OPENER}[\n    {{"tool_call_id": "0", "tool_name": {quote(name)}, "parameters":'
    )


def _force_action(name: str | None) -> str:
    return (
        _ACTION
        if name is None
        else f'{_ACTION}\n    {{\n        "tool_name": {quote(name)},\n        "parameters":'
    )


TOOLS = ToolParser(
    id="command_r",
    opener=_OPENER,
    other_openers=("Action:```json", "Action: ```json", "Action:\n```json"),
    closer=_CLOSER,
    other_closers=("```",),
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end='\n        "parameters":',
            call_end="\n    }\n]```",
            call_separator=",",
            block=(_ACTION, "\n]```"),
        ),
        Closing(
            prefix_end='"parameters":',
            call_end=f"}}\n]{_CLOSER}",
            call_separator=",\n    ",
            block=(f"{_OPENER}[\n    ", f"\n]{_CLOSER}"),
            counter=('"tool_call_id": "', '"'),
        ),
    ),
    dialects=(_force_action,),
)
