"""Tool calls of Gemma 2 to 3n: a `tool_code` block of Python.

These models were not trained on tool definitions. Google's guide lets the model print a call's result; calls
may be in a list, or one per line.
"""

from mlxctl.formats.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.formats.parsers.python_calls import PythonCallsBody, PythonFormat
from mlxctl.ir import PythonNotation

_OPENER = "```tool_code"
_SYNTAX = PythonFormat(wrapper="print")


def _open_body(opening: Opening) -> PythonCallsBody:
    return PythonCallsBody(opening.tools, _SYNTAX)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}\n" if name is None else f"{_OPENER}\n{name}("


TOOLS = ToolParser(
    id="gemma",
    opener=_OPENER,
    closer="```",
    open_body=_open_body,
    forced_prefix=_force_call,
    result_text="```tool_output\n{content}\n```",
    closings=(
        Closing(
            prefix_end="(",
            call_end=")\n```",
            notation=PythonNotation(),
            call_separator="\n",
            block=(f"{_OPENER}\n", "\n```"),
        ),
    ),
)
