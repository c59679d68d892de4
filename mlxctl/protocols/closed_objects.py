"""Schemas of answers without properties that they do not name.

JSON Schema allows others where `additionalProperties` is missing. Other servers do not generate any, and
schemas that pydantic writes rely on it.
"""

from collections.abc import Iterator, Mapping
from typing import Any

_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SINGLES = ("items", "additionalProperties")
# Beside `properties` these describe the same object, so that other parts may name further properties.
_SAME_OBJECT = ("anyOf", "oneOf", "allOf", "$ref", "if", "not", "dependentSchemas", "dependencies",
                "unevaluatedProperties")  # fmt: skip


def with_closed_objects(schema: dict[str, Any]) -> dict[str, Any]:
    """Return the schema with objects that have only named properties.

    Objects with `additionalProperties` stay as they are, as does a schema whose parts describe one object.
    """
    return schema if any(map(_is_combined, _parts(schema))) else _closed(schema)


def _closed(schema: dict[str, Any]) -> dict[str, Any]:
    closed = dict(schema)
    for key in _MAPS:
        if isinstance(named := schema.get(key), dict):
            closed[key] = {name: _closed_part(part) for name, part in named.items()}
    for key in _LISTS:
        if isinstance(listed := schema.get(key), list):
            closed[key] = [_closed_part(part) for part in listed]
    for key in _SINGLES:
        if key in schema:
            closed[key] = _closed_part(schema[key])
    if isinstance(schema.get("properties"), dict):
        closed.setdefault("additionalProperties", False)
    return closed


def _closed_part(part: Any) -> Any:
    return _closed(part) if isinstance(part, dict) else part


def _is_combined(schema: Mapping[str, Any]) -> bool:
    combined = schema.get("allOf")
    if isinstance(combined, list) and len(combined) > 1:
        return True
    return "properties" in schema and any(key in schema for key in _SAME_OBJECT)


def _parts(schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schema and all schemas in it."""
    yield schema
    children = [
        *(part for key in _MAPS if isinstance(named := schema.get(key), dict) for part in named.values()),
        *(part for key in _LISTS if isinstance(listed := schema.get(key), list) for part in listed),
        *(schema.get(key) for key in _SINGLES),
    ]
    for child in children:
        if isinstance(child, dict):
            yield from _parts(child)
