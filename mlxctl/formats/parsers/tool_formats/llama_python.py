"""Tool calls of Llama 3.1 to 4: JSON or Python calls.

At the start of the answer, or after `<|python_tag|>`. Llama 3.1 writes `{"name": "f", "parameters": {"a":
1}}`, several separated by `;`, and its built-in tools as `f.call(a=1)`; 3.2 and 4 may write `[f(a=1)]`,
between `<|python_start|>` and `<|python_end|>` after text. Without a marker, only a call of an available tool
counts, also after text.
"""

from mlxctl.formats.parsers.declarations import BodyReader, Closing, Opening, ToolParser
from mlxctl.formats.parsers.first_character import FirstCharacterBody
from mlxctl.formats.parsers.json_calls import CallObject, JsonCallsBody
from mlxctl.formats.parsers.json_value import quote
from mlxctl.formats.parsers.python_calls import PythonCallsBody, PythonFormat
from mlxctl.ir import PythonNotation

_OPENER = "<|python_tag|>"
_MARKERS = (_OPENER, "<|python_start|>")


def _open_body(opening: Opening) -> BodyReader:
    is_bare = opening.marker not in _MARKERS
    objects, python = CallObject(separators=";", is_bare=is_bare), PythonFormat(is_bare=is_bare)

    def choose(first: str) -> BodyReader:
        return (
            JsonCallsBody(opening.tools, objects) if first == "{" else PythonCallsBody(opening.tools, python)
        )

    return FirstCharacterBody(choose, skips="[")


def _bare_calls(name: str) -> tuple[str, ...]:
    objects = (f'{{"name":{space}{quote(name)}' for space in ("", " "))
    return f"[{name}(", *objects


def _force_object(name: str | None) -> str:
    return '{"name": "' if name is None else f'{{"name": {quote(name)}, "parameters":'


def _force_typed_object(name: str | None) -> str:
    begin = '{"type": "function", "name":'
    return begin if name is None else f'{begin} {quote(name)}, "parameters":'


def _force_list(name: str | None) -> str:
    return "[" if name is None else f"[{name}("


TOOLS = ToolParser(
    id="llama_python",
    opener=_OPENER,
    other_openers=_MARKERS[1:],
    closer="<|python_end|>",
    open_body=_open_body,
    bare_openers="{[",
    bare_calls=_bare_calls,
    forced_prefix=_force_object,
    dialects=(_force_typed_object, _force_list),
    arguments_opening=' {"',
    closings=(
        Closing(prefix_end='"parameters":', call_end="}", call_separator="; "),
        Closing(
            prefix_end="(", call_end=")]", notation=PythonNotation(), call_separator=", ", block=("[", "]")
        ),
    ),
)
