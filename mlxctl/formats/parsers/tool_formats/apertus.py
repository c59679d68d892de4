"""Tool calls of Apertus: `<|tools_prefix|>` and a list of objects.

Each object has the tool's name as its key: `<|tools_prefix|>[{"f": {"a": 1}}, {"g": {}}]<|tools_suffix|>`.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _CLOSER = "<|tools_prefix|>", "<|tools_suffix|>"
_SYNTAX = CallObject(is_keyed=True)


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools, _SYNTAX)


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
            prefix_start=f"{_OPENER}[",
            prefix_end=":",
            call_end=f"}}]{_CLOSER}",
            call_separator=", ",
            block=(f"{_OPENER}[", f"]{_CLOSER}"),
        ),
    ),
)
