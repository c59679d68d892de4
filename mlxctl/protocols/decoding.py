"""From request bytes to a schema value; what msgspec complains about becomes a sentence that names the caller's field.

Refuses with InvalidRequest: bytes that are not UTF-8 or not JSON (NaN and Infinity are not), values of a wrong type or out of
range, missing fields, and nesting so deep that a recursive reader further on would break. Unknown fields are ignored.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from mlxctl.errors import InvalidRequest

# Jinja's tojson and json.dumps recurse per level; Python's own limit of 1000 is shared with their callers' frames.
MAX_NESTING = 128

_JSON_NAMES = {
    "str": "a string",
    "int": "an integer",
    "float": "a number",
    "bool": "a boolean",
    "array": "an array",
    "object": "an object",
    "null": "null",
}
_COMPLAINT = re.compile(r"(?P<what>.*?)(?: - at (?P<key>`key` in )?`\$(?P<path>.*)`)?", re.DOTALL)
_EXPECTED = re.compile(r"Expected `(?P<types>[^`]+)`(?P<limit>[^,]*)(?:, got `(?P<got>[^`]+)`)?")
_STEP = re.compile(r"\.(\w+)|\[[^]]*\]")

SchemaType = TypeVar("SchemaType")


def decode_body(body: bytes, decoder: msgspec.json.Decoder[SchemaType]) -> SchemaType:
    """Read a JSON request body. Raises InvalidRequest."""
    try:
        return decoder.decode(body)
    except msgspec.ValidationError as error:
        raise _explain(str(error), decoder.type) from error
    except msgspec.DecodeError as error:
        raise InvalidRequest(f"the request body is not valid JSON: {_as_clause(str(error))}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest("the request body is not valid UTF-8; encode it as UTF-8") from error
    except RecursionError as error:
        raise InvalidRequest("the request body is nested too deeply; flatten it") from error


def missing(path: str) -> InvalidRequest:
    """Return the error for a required field that is not there."""
    return InvalidRequest(f"{path} is missing; it is required", param=path, code="missing_required_parameter")


def refuse_deep_nesting(value: object, path: str) -> None:
    """Raise InvalidRequest when `value`, free-form JSON at `path`, has more than MAX_NESTING levels."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise InvalidRequest(f"{path} is nested more than {MAX_NESTING} levels deep; flatten it", param=path)


def _children(node: object) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()


def _as_clause(sentence: str) -> str:
    return sentence.removeprefix("JSON is malformed: ").removeprefix("Input data was ").rstrip(".")


def _explain(complaint: str, schema: type[Any]) -> InvalidRequest:
    match = _COMPLAINT.fullmatch(complaint)
    assert match is not None, "the pattern takes any text"
    what, path = match["what"], (match["path"] or "").removeprefix(".")
    if absent := re.fullmatch(r"Object missing required field `(\w+)`", what):
        path = f"{path}.{absent[1]}" if path else absent[1]
        return missing(path)
    path = path.removesuffix("[...]")
    return InvalidRequest(_sentence(what, path, schema, subject=_subject(path, in_key=bool(match["key"]))), param=path or None)


def _subject(path: str, *, in_key: bool) -> str:
    if in_key:
        return f"every key of {path}"
    return path or "the request body"


def _sentence(what: str, path: str, schema: type[Any], *, subject: str) -> str:
    if expected := _EXPECTED.fullmatch(what):
        wanted = [_JSON_NAMES.get(name, name) for name in expected["types"].split(" | ") if name != "null"]
        got = f", not {_JSON_NAMES.get(expected['got'], expected['got'])}" if expected["got"] else ""
        return f"{subject} must be {' or '.join(wanted)}{expected['limit']}{got}"
    if invalid := re.fullmatch(r"Invalid (?:enum )?value (.*)", what, re.DOTALL):
        choices = ", ".join(repr(choice) for choice in _choices(schema, path))
        return f"{subject} is {invalid[1]}, which is not supported; use one of: {choices}"
    return f"{subject}: {what[:1].lower()}{what[1:]}"


def _choices(schema: type[Any], path: str) -> list[str]:
    """Return what may stand at `path`: the literals, or the tags of the objects, that the schema knows there."""
    nodes = _alternatives(msgspec.inspect.type_info(schema))
    for name in _STEP.findall(path):
        nodes = [inner for node in nodes for child in _step(node, name) for inner in _alternatives(child)]
    return sorted({str(value) for node in nodes if isinstance(node, msgspec.inspect.LiteralType) for value in node.values})


def _step(node: msgspec.inspect.Type, name: str) -> list[msgspec.inspect.Type]:
    match node:
        case msgspec.inspect.StructType() if name == node.tag_field:
            return [msgspec.inspect.LiteralType((node.tag,))]
        case msgspec.inspect.StructType():
            return [field.type for field in node.fields if field.encode_name == name]
        case msgspec.inspect.ListType() if not name:
            return [node.item_type]
        case msgspec.inspect.DictType() if not name:
            return [node.value_type]
        case _:
            return []


def _alternatives(node: msgspec.inspect.Type) -> list[msgspec.inspect.Type]:
    if isinstance(node, msgspec.inspect.Metadata):
        return _alternatives(node.type)
    if isinstance(node, msgspec.inspect.UnionType):
        return [inner for option in node.types for inner in _alternatives(option)]
    return [node]
