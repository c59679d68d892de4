"""Writes past calls as the text that a parser reads."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from mlxctl.formats.parsers.declarations import Closing, ToolParser
from mlxctl.ir import BraceNotation, JsonNotation, Notation, PythonNotation, TagNotation
from mlxctl.ir.json_schemas import kind_of

# The name of arguments that are no object, where a format needs one.
_UNNAMED = "arguments"


def write_calls(
    parser: ToolParser,
    calls: Sequence[tuple[str, Any]],
    force_call: Callable[[str | None], str | None] | None = None,
) -> str | None:
    """Return calls, each a name and arguments, in the parser's format.

    `force_call` is the parser's dialect. Returns None for a format that does not declare how calls end.
    """
    force = force_call or parser.forced_prefix
    written: list[str] = []
    closing: Closing | None = None
    for index, (name, arguments) in enumerate(calls):
        prefix = force(name) or ""
        closing = parser.closing_after(prefix)
        if not prefix or closing is None:
            return None
        space = " " if prefix.endswith(":") else ""
        text = space + _arguments_text(arguments, closing.notation)
        if closing.call_separator is None:
            written.append(prefix + text + closing.call_end)
        else:
            begin = _numbered(prefix, closing, index).removeprefix(closing.block[0])
            written.append(begin + text + closing.call_end.removesuffix(closing.block[1]))
    if closing is None:
        return ""
    if closing.call_separator is None:
        return ("\n" if parser.separator is None else parser.separator).join(written)
    return closing.block[0] + closing.call_separator.join(written) + closing.block[1]


def _numbered(prefix: str, closing: Closing, index: int) -> str:
    if closing.counter is None:
        return prefix
    left, right = closing.counter
    return prefix.replace(f"{left}0{right}", f"{left}{index}{right}")


def _arguments_text(arguments: Any, notation: Notation) -> str:
    if isinstance(notation, JsonNotation):
        return json.dumps(arguments, ensure_ascii=False)
    if isinstance(notation, PythonNotation):
        return _python_arguments(arguments)
    named = arguments if isinstance(arguments, Mapping) else {_UNNAMED: arguments}
    if isinstance(notation, BraceNotation):
        return ",".join(f"{name}:{_brace_value(value, notation)}" for name, value in named.items())
    return "".join(_tagged(name, value, notation) for name, value in named.items())


def _tagged(name: str, value: Any, notation: TagNotation) -> str:
    begin = notation.begin_string if isinstance(value, str) and notation.begin_string else notation.begin
    kind = kind_of(value)
    begin = begin.replace("{type}", "number" if kind == "integer" else kind)
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    if notation.sections and isinstance(value, str) and any(char in text for char in "<&\n"):
        text = f"{notation.sections[0]}{text}{notation.sections[1]}"
    return begin.replace("{name}", name) + text + notation.end.replace("{name}", name)


def _brace_value(value: Any, notation: BraceNotation) -> str:
    if isinstance(value, str):
        return f"{notation.mark}{value}{notation.mark}"
    if isinstance(value, Mapping):
        members = ",".join(f"{name}:{_brace_value(member, notation)}" for name, member in value.items())
        return f"{{{members}}}"
    if isinstance(value, list):
        return f"[{','.join(_brace_value(element, notation) for element in value)}]"
    return json.dumps(value)


def _python_arguments(arguments: Any) -> str:
    if not isinstance(arguments, Mapping):
        return repr(arguments)
    if all(key.isidentifier() for key in arguments):
        return ", ".join(f"{key}={value!r}" for key, value in arguments.items())
    return f"**{arguments!r}"
