"""msgspec validation errors as messages with the field's path and the fix."""

import re
from collections.abc import Callable
from typing import Any

from msgspec import inspect

from mlxctl.ir.errors import InvalidRequest, shortened

_JSON_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
}
_MAX_LISTED_KEYS = 8
_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_ABSENT = re.compile(r"Object missing required field `(\w+)`")
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<types>[^`]+)`(?P<limit>[^,]*)(?:, got `(?P<got>[^`]+)`)?")
_INVALID = re.compile(r"Invalid (?:enum )?value (.*)", re.DOTALL)
STEP = re.compile(r"\.(?P<name>\w+)|\[(?P<index>\d+)\]|\[\.\.\.\]")
"""One step of a ValidationError's path."""


def missing(path: str) -> InvalidRequest:
    """Return the error for a required field that is not there."""
    return InvalidRequest(f"{path} is missing; it is required", param=path, code="missing_required_parameter")


def explain(
    complaint: str, schema: type[Any], read_body: Callable[[], object], *, root: str = ""
) -> InvalidRequest:
    """Return the InvalidRequest of a ValidationError's text, from decoding as `schema`.

    `read_body` decodes the body untyped. A part of the body has its path in `root`.
    """
    match = _COMPLAINT.fullmatch(shortened(complaint))
    assert match is not None, "the pattern takes any text"
    what, path = match["what"], match["path"] or ""
    field = (root + path.removesuffix("[...]")).removeprefix(".")
    if absent := _ABSENT.fullmatch(what):
        return missing(f"{field}.{absent[1]}" if field else absent[1])
    if unknown := _UNKNOWN.fullmatch(what):
        name = f"{field}.{unknown[1]}" if field else unknown[1]
        return InvalidRequest(f"unknown field {name!r}", param=name)
    subject, keys = field or "the request body", ""
    if match["key"]:
        subject, keys = f"every key of {field}", _keys_without_number(what, value_at(path, read_body()))
    elif path.endswith("[...]"):
        subject = f"every value of {field}"
    return InvalidRequest(f"{subject} {_predicate(what, path, schema, read_body)}{keys}", param=field or None)


def _keys_without_number(what: str, value: object) -> str:
    """Return the end of a sentence, with keys that are no numbers."""
    if not isinstance(value, dict) or not what.startswith("Expected `int`"):
        return ""
    keys = [key for key in value if not key.isdecimal()]
    more = f" and {len(keys) - _MAX_LISTED_KEYS} more" if len(keys) > _MAX_LISTED_KEYS else ""
    return (": " + ", ".join(repr(shortened(key)) for key in keys[:_MAX_LISTED_KEYS]) + more) if keys else ""


def value_at(path: str, value: Any) -> Any:
    """Return what a decoded body has at `path`, or None."""
    for step in STEP.finditer(path):
        name, index = step["name"], step["index"]
        if name is not None:
            value = value.get(name) if isinstance(value, dict) else None
        elif index is not None:
            value = value[int(index)] if isinstance(value, list) else None
    return value


def _predicate(what: str, path: str, schema: type[Any], read_body: Callable[[], object]) -> str:
    if expected := _EXPECTED.fullmatch(what):
        wanted = [_JSON_NAMES.get(name, name) for name in expected["types"].split(" | ") if name != "null"]
        got = f", not {_JSON_NAMES.get(expected['got'], expected['got'])}" if expected["got"] else ""
        return f"must be {' or '.join(wanted)}{expected['limit']}{got}"
    if invalid := _INVALID.fullmatch(what):
        choices = ", ".join(map(repr, _choices(path, schema, read_body())))
        return f"is {invalid[1]}, which is not supported here; use one of: {choices}"
    return f"cannot be read: {what[:1].lower()}{what[1:]}"


def _choices(path: str, schema: type[Any], value: Any) -> list[str]:
    """Return literals or object tags allowed at `path` of `value`."""
    nodes = _alternatives(inspect.type_info(schema))
    for step in STEP.finditer(path):
        name, index = step["name"], step["index"]
        nodes = [
            inner
            for node in _chosen(nodes, value)
            for child in _step(node, name)
            for inner in _alternatives(child)
        ]
        value = value.get(name) if isinstance(value, dict) else value[int(index)] if index else None
    return sorted(
        {str(literal) for node in nodes if isinstance(node, inspect.LiteralType) for literal in node.values}
    )


def _chosen(nodes: list[inspect.Type], value: Any) -> list[inspect.Type]:
    """Return the object type with the tag of `value`.

    All if none matches.
    """
    if not isinstance(value, dict):
        return nodes
    tagged = [node for node in nodes if isinstance(node, inspect.StructType) and node.tag_field]
    return [node for node in tagged if value.get(node.tag_field) == node.tag] or nodes


def _step(node: inspect.Type, name: str | None) -> list[inspect.Type]:
    match node:
        case inspect.StructType() if name == node.tag_field:
            return [inspect.LiteralType((node.tag,))]
        case inspect.StructType():
            return [field.type for field in node.fields if field.encode_name == name]
        case inspect.ListType() if name is None:
            return [node.item_type]
        case inspect.DictType():
            return [node.value_type]
        case _:
            return []


def _alternatives(node: inspect.Type) -> list[inspect.Type]:
    if isinstance(node, inspect.Metadata):
        return _alternatives(node.type)
    if isinstance(node, inspect.UnionType):
        return [inner for option in node.types for inner in _alternatives(option)]
    return [node]
