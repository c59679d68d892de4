"""Size checks for texts that templates build.

They run before the text exists: a template may request a width, repeat a text inside another, or nest lists.
Each check raises TemplateTooLong where the result would exceed `max_chars` characters.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import jinja2

MAX_WIDTH = 10_000
MAX_NODES = 200_000
_MAX_DEPTH = 200
_PERCENT_WIDTH = re.compile(r"%[-+ #0-9.]*(?:[0-9]{5}|\*)")
_BRACES_WIDTH = re.compile(r"\{[^{}]*(?:[0-9]{5}|\{)")
# Filters and methods whose numbers are widths, and filters that convert any value to text.
_WIDE_FILTERS = frozenset({"batch", "center", "indent", "round", "slice", "tojson", "truncate", "wordwrap"})
_WIDE_METHODS = frozenset({"center", "expandtabs", "ljust", "rjust", "zfill"})
_TEXT_FILTERS = frozenset(
    {
        "capitalize", "center", "e", "escape", "forceescape", "format", "indent", "join", "lower", "pprint",
        "replace", "safe", "string", "striptags", "title", "tojson", "trim", "truncate", "upper", "urlencode",
        "urlize", "wordcount", "wordwrap",
    }
)  # fmt: skip


class TemplateTooLong(jinja2.TemplateError):
    """The template exceeds the limits on steps, sizes or depth."""


def check_filter(name: str, value: Any, arguments: Sequence[Any], *, max_chars: int) -> None:
    """Check the result of the filter `name` on `value`."""
    if name in _TEXT_FILTERS:
        num_nodes = check_size([value, *arguments], max_chars=max_chars)
        if name == "tojson" and num_nodes * sum(map(_width, arguments)) * 16 > max_chars:
            raise _too_long(max_chars)
    if name in _WIDE_FILTERS:
        _check_widths(name, value, arguments, max_chars=max_chars)
    if name == "format":
        check_percent(value, max_chars=max_chars)
    if name == "replace":
        _check_replacement(str(value), arguments, max_chars=max_chars)
    if name == "join" and arguments and isinstance(value, Sequence):
        _check_join(str(arguments[0]), value, max_chars=max_chars)


def check_method(text: str, name: str, arguments: Sequence[Any], *, max_chars: int) -> None:
    """Check the result of a method of a text."""
    if name in _WIDE_METHODS:
        _check_widths(name, text.replace("\t", "\n"), arguments, max_chars=max_chars)
    elif name in ("format", "format_map"):
        check_size(arguments, max_chars=max_chars)
        if _BRACES_WIDTH.search(text.replace("{{", "").replace("}}", "")):
            raise TemplateTooLong("it formats with a width that is too large, or that is an argument")
    elif name == "replace":
        _check_replacement(text, arguments, max_chars=max_chars)
    elif name == "join" and arguments and isinstance(arguments[0], Sequence):
        check_size(arguments, max_chars=max_chars)
        _check_join(text, arguments[0], max_chars=max_chars)
    elif name == "translate":
        raise TemplateTooLong("it translates a text, whose result may have any length")


def check_percent(text: Any, *, max_chars: int, values: Any = ()) -> None:
    """Check the result of `text % values`."""
    check_size(values, max_chars=max_chars)
    if isinstance(text, str) and _PERCENT_WIDTH.search(text):
        raise TemplateTooLong("it formats with a width that is too large, or that is an argument")


def check_size(value: Any, *, max_chars: int) -> int:
    """Check a nested value's text; return its number of parts."""
    num_chars = num_nodes = 0
    level: list[Any] = [value]
    for _ in range(_MAX_DEPTH):
        num_nodes += len(level)
        num_chars += sum(len(node) for node in level if isinstance(node, str))
        if num_nodes > MAX_NODES or num_chars > max_chars:
            raise _too_long(max_chars)
        level = [child for node in level for child in _children(node, MAX_NODES)]
        if not level:
            return num_nodes
    raise TemplateTooLong(f"it nests lists more than {_MAX_DEPTH} levels deep")


def _children(node: Any, max_nodes: int) -> Iterable[Any]:
    if isinstance(node, Mapping):
        return (part for pair in node.items() for part in pair)
    return node[:max_nodes] if isinstance(node, list | tuple) else ()


def _check_widths(name: str, value: Any, arguments: Sequence[Any], *, max_chars: int) -> None:
    widest = max(map(_width, arguments), default=0)
    if any(isinstance(argument, int) and abs(argument) > MAX_WIDTH for argument in arguments):
        raise TemplateTooLong(f"it uses {name} with a width of more than {MAX_WIDTH}")
    if isinstance(value, str):
        num_lines = len(value) if name == "wordwrap" else value.count("\n") + 1
        if num_lines * widest > max_chars:
            raise _too_long(max_chars)


def _check_replacement(text: str, arguments: Sequence[Any], *, max_chars: int) -> None:
    if len(arguments) > 1:
        old, new = str(arguments[0]), str(arguments[1])
        if len(text) + text.count(old) * (len(new) - len(old)) > max_chars:
            raise _too_long(max_chars)


def _check_join(separator: str, elements: Sequence[Any], *, max_chars: int) -> None:
    if len(separator) * len(elements) > max_chars:
        raise _too_long(max_chars)


def _width(argument: Any) -> int:
    if isinstance(argument, str):
        return len(argument)
    return abs(argument) if isinstance(argument, int) else 0


def _too_long(max_chars: int) -> TemplateTooLong:
    return TemplateTooLong(f"it builds a text of more than {max_chars} characters")
