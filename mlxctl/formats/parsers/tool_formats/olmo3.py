"""Tool calls of Olmo 3: one Python call per line in `<function_calls>`."""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.python_calls import PythonCallsBody
from mlxctl.ir import PythonNotation

_OPENER, _CLOSER = "<function_calls>", "</function_calls>"


def _open_body(opening: Opening) -> PythonCallsBody:
    return PythonCallsBody(opening.tools)


def _force_call(name: str | None) -> str:
    return _OPENER if name is None else f"{_OPENER}{name}("


TOOLS = ToolParser(
    id="olmo3",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end="(",
            call_end=f"){_CLOSER}",
            notation=PythonNotation(),
            call_separator="\n",
            block=(_OPENER, _CLOSER),
        ),
    ),
)
