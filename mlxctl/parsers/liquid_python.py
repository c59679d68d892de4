"""Tool calls of Liquid's models: `<|tool_call_start|>[f(a=1)]<|tool_call_end|>`."""

from mlxctl.ir import PythonNotation
from mlxctl.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.parsers.python_calls import PythonCallsBody

_OPENER, _CLOSER = "<|tool_call_start|>", "<|tool_call_end|>"


def _open_body(opening: Opening) -> PythonCallsBody:
    return PythonCallsBody(opening.tools)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}[" if name is None else f"{_OPENER}[{name}("


TOOLS = ToolParser(
    id="liquid_python",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(behind="(", text=f")]{_CLOSER}", notation=PythonNotation(), joint=", ", block=(f"{_OPENER}[", f"]{_CLOSER}")),
    ),
)
