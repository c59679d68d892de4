"""Tool calls of Nemotron Nano 2: a JSON list in `<TOOLCALL>`."""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.json_value import quote

_OPENER, _CLOSER = "<TOOLCALL>", "</TOOLCALL>"


def _open_body(opening: Opening) -> JsonCallsBody:
    return JsonCallsBody(opening.tools)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}[" if name is None else f'{_OPENER}[{{"name": {quote(name)}, "arguments":'


TOOLS = ToolParser(
    id="nemotron",
    opener=_OPENER,
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
