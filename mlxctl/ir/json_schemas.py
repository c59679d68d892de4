"""What JSON Schema says: the types of values, the targets of references.

A schema comes from a client: what is malformed names nothing.
"""

import re
from typing import Any
from urllib.parse import unquote

SchemaKeys = tuple[str | int, ...]
"""The keys from a schema to a part of it."""

_MAX_STEPS = 64


def kind_of(value: Any) -> str:
    """Return the JSON type of a parsed value.

    A float is a number, also without a fraction.
    """
    match value:
        case None:
            return "null"
        case bool():
            return "boolean"
        case int():
            return "integer"
        case float():
            return "number"
        case str():
            return "string"
        case list():
            return "array"
        case _:
            return "object"


def target(root: Any, reference: str) -> Any:
    """Return the part that a local reference names, else None."""
    keys = pointer_keys(root, reference[1:]) if reference.startswith("#") else None
    found = root
    for key in keys or ():
        found = found[key]
    return None if keys is None else found


def pointer_keys(node: Any, pointer: str) -> SchemaKeys | None:
    """Return the keys to a JSON pointer's target, else None.

    The pointer is one of RFC 6901. The text is taken as it is, or else percent-decoded.
    """
    if not pointer:
        return ()
    if not pointer.startswith("/") or pointer.count("/") > _MAX_STEPS:
        return None
    for text in dict.fromkeys((pointer, unquote(pointer))):
        if (found := _walk(node, text[1:].split("/"))) is not None:
            return found
    return None


def _walk(node: Any, steps: list[str]) -> SchemaKeys | None:
    """Return the keys along a pointer's steps.

    A key may have a slash as it is.
    """
    if not steps:
        return () if isinstance(node, dict | bool) else None
    if isinstance(node, list):
        index = int(steps[0]) if re.fullmatch("[0-9]{1,6}", steps[0]) else len(node)
        rest = _walk(node[index], steps[1:]) if index < len(node) else None
        return None if rest is None else (index, *rest)
    if not isinstance(node, dict):
        return None
    for num in range(1, len(steps) + 1):
        name = "/".join(steps[:num])
        for key in dict.fromkeys((name, name.replace("~1", "/").replace("~0", "~"))):
            if key in node and (rest := _walk(node[key], steps[num:])) is not None:
                return (key, *rest)
    return None
