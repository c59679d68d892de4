"""Tool calls of Gemma 2, 3 and 3n, which were never told of tools: a code block of Python, marked
`tool_code`.

Google's guide lets the model print what the call returns; the calls may be in a list, or one on each line.
"""

from mlxctl.ir import PythonNotation
from mlxctl.parsers.declarations import Closing, Opening, ToolParser
from mlxctl.parsers.python_calls import PythonCallsBody, PythonForm

_OPENER = "```tool_code"
_FORM = PythonForm(wrapper="print")


def _open_body(opening: Opening) -> PythonCallsBody:
    return PythonCallsBody(opening.tools, _FORM)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}\n" if name is None else f"{_OPENER}\n{name}("


TOOLS = ToolParser(
    id="gemma",
    opener=_OPENER,
    closer="```",
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            behind="(", text=")\n```", notation=PythonNotation(), joint="\n", block=(f"{_OPENER}\n", "\n```")
        ),
    ),
)
