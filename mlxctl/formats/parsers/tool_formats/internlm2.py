"""Tool calls of InternLM 2: a JSON object between `<|action_start|><|plugin|>` and `<|action_end|>`."""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_ACTION, _PLUGIN, _CLOSER = "<|action_start|>", "<|plugin|>", "<|action_end|>"
_OPENER = f"{_ACTION}{_PLUGIN}"
_SYNTAX = CallObject(argument_keys=("parameters", "arguments"))


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _SYNTAX)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}\n" if name is None else f'{_OPENER}\n{{"name": {quote(name)}, "parameters":'


TOOLS = ToolParser(
    id="internlm2",
    opener=_OPENER,
    other_openers=(f"{_ACTION} {_PLUGIN}",),
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(Closing(prefix_end='"parameters":', call_end=f"}}{_CLOSER}"),),
    separator="\n",
)
