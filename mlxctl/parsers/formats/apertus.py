"""Tool calls of Apertus: a list of objects with the tool's name as their key, behind `<|tools_prefix|>`.

`<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>`.
"""

from mlxctl.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.parsers.json_value import quote

_OPENER, _CLOSER = "<|tools_prefix|>", "<|tools_suffix|>"
_FORM = CallObject(is_keyed=True)


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _FORM)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}[" if name is None else f"{_OPENER}[{{{quote(name)}:"


TOOLS = ToolParser(
    id="apertus",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    arguments_opening=' {"',
    closings=(
        Closing(
            begin=f"{_OPENER}[",
            behind=":",
            text=f"}}]{_CLOSER}",
            joint=", ",
            block=(f"{_OPENER}[", f"]{_CLOSER}"),
        ),
    ),
)
