"""Tool calls of Liquid: Python calls, or JSON objects.

`<|tool_call_start|>[f(a=1)]<|tool_call_end|>`. The models often repeat the list and its end.
"""

from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.echoed_block import EchoedBlockBody
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.json_calls import JsonCallsBody
from mlxctl.formats.parsers.python_calls import PythonCallsBody
from mlxctl.ir import PythonNotation

_OPENER, _CLOSER = "<|tool_call_start|>", "<|tool_call_end|>"


def _open_body(opening: Opening) -> BodyReader:
    def choose(first: str) -> BodyReader:
        return JsonCallsBody(opening.tools) if first == "{" else PythonCallsBody(opening.tools)

    return EchoedBlockBody(FirstCharacterBody(choose, skips="["), closer=_CLOSER)


def _force_call(name: str | None) -> str:
    return f"{_OPENER}[" if name is None else f"{_OPENER}[{name}("


TOOLS = ToolParser(
    id="liquid_python",
    opener=_OPENER,
    closer=_CLOSER,
    open_body=_open_body,
    forced_prefix=_force_call,
    closings=(
        Closing(
            prefix_end="(",
            call_end=f")]{_CLOSER}",
            notation=PythonNotation(),
            call_separator=", ",
            block=(f"{_OPENER}[", f"]{_CLOSER}"),
        ),
    ),
)
