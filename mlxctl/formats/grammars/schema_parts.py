"""The subschemas of a JSON schema with their keys."""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from mlxctl.ir.json_schemas import SchemaKeys

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems", "items")
_MAPS = ("properties", "patternProperties", "$defs", "definitions", "dependentSchemas")
_SINGLES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames",
            "unevaluatedProperties", "unevaluatedItems")  # fmt: skip


def direct_parts(node: Mapping[str, Any]) -> Iterator[tuple[SchemaKeys, Any]]:
    """Yield the direct subschemas with their keys; they are objects or booleans."""
    for key in _MAPS:
        if isinstance(named := node.get(key), dict):
            yield from (((key, name), part) for name, part in named.items())
    for key in _LISTS:
        if isinstance(listed := node.get(key), list):
            yield from (((key, index), part) for index, part in enumerate(listed))
    for key in _SINGLES:
        if isinstance(part := node.get(key), dict | bool):
            yield (key,), part


def all_parts(
    node: Mapping[str, Any], keys: SchemaKeys = ()
) -> Iterator[tuple[SchemaKeys, Mapping[str, Any]]]:
    """Yield the schema and all objects in it that are schemas."""
    yield keys, node
    for step, part in direct_parts(node):
        if isinstance(part, dict):
            yield from all_parts(part, keys + step)


def changed(
    node: Mapping[str, Any],
    change: Callable[[dict[str, Any], SchemaKeys], dict[str, Any]],
    keys: SchemaKeys = (),
) -> dict[str, Any]:
    """Return a copy with `change(part, keys)` for each part, innermost first."""
    copy: dict[Any, Any] = dict(node)
    for step, part in direct_parts(node):
        if isinstance(part, dict):
            new = changed(part, change, keys + step)
            if len(step) == 1:
                copy[step[0]] = new
            else:
                held = dict[Any, Any](node)[step[0]]
                if copy[step[0]] is held:
                    copy[step[0]] = held.copy()
                copy[step[0]][step[1]] = new
    return change(copy, keys)


def path_text(keys: SchemaKeys) -> str:
    """Return keys as a path, such as `.properties.a.anyOf[0]`."""
    return "".join(f"[{key}]" if isinstance(key, int) else f".{key}" for key in keys)
