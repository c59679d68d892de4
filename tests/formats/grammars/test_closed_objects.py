"""Objects have only named properties, also where several parts describe one object."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator

from mlxctl.formats.grammars.closed_objects import with_closed_objects
from tests.formats.grammars.matching import accepts, compiled

TEXT = {"type": "string"}
NUMBER = {"type": "integer"}
CLOSED = {"properties": {"a": TEXT}, "additionalProperties": False}
BASE = {"type": "object", "properties": {"id": TEXT}, "required": ["id"]}


def takes(schema: dict[str, Any], value: Any) -> bool:
    """Whether the grammar of a schema accepts a value."""
    return accepts(compiled("json_schema", schema), value)


def test_objects_with_properties_are_closed_everywhere() -> None:
    inner = {"properties": {"a": TEXT}}
    schema = {
        "properties": {
            "one": inner,
            "many": {"items": inner},
            "either": {"anyOf": [inner, {"type": "null"}]},
        },
        "$defs": {"Part": inner},
    }
    assert with_closed_objects(schema) == {
        "properties": {
            "one": CLOSED,
            "many": {"items": CLOSED},
            "either": {"anyOf": [CLOSED, {"type": "null"}]},
        },
        "$defs": {"Part": CLOSED},
        "additionalProperties": False,
    }
    assert inner == {"properties": {"a": TEXT}}


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "object"},
        {"type": "object", "required": ["a"]},
        {"properties": {"a": TEXT}, "additionalProperties": True},
        {"properties": {"a": TEXT}, "additionalProperties": TEXT},
        {"properties": {"a": TEXT}, "patternProperties": {"^x": TEXT}},
        {"properties": {"a": TEXT}, "unevaluatedProperties": TEXT},
        {"allOf": [{"properties": {"a": TEXT}}, {"additionalProperties": TEXT}]},
    ],
)
def test_objects_that_say_more_or_name_nothing_stay_open(schema: dict[str, Any]) -> None:
    assert with_closed_objects(schema) == schema


ALL_OF = {"allOf": [BASE, {"properties": {"b": NUMBER}}]}
ALL_OF_REFERENCES = {
    "allOf": [{"$ref": "#/$defs/Base"}, {"$ref": "#/$defs/More"}],
    "$defs": {"Base": BASE, "More": {"properties": {"b": NUMBER}, "required": ["b"]}},
}
BESIDE_REFERENCE = {"$ref": "#/$defs/Base", "properties": {"b": NUMBER}, "$defs": {"Base": BASE}}
BESIDE_CHOICES = {
    "properties": {"id": TEXT},
    "anyOf": [{"properties": {"b": NUMBER}, "required": ["b"]}, {"properties": {"c": TEXT}}],
}
REQUIRED_CHOICES = {
    "properties": {"id": TEXT, "b": NUMBER},
    "anyOf": [{"required": ["id"]}, {"required": ["b"]}],
}
INHERITED = {
    "$ref": "#/definitions/Dog",
    "definitions": {
        "Animal": {"type": "object", "properties": {"id": TEXT, "next": {"$ref": "#/definitions/Dog"}}},
        "Dog": {"allOf": [{"$ref": "#/definitions/Animal"}, {"properties": {"b": NUMBER}}]},
    },
}
UNEVALUATED = {**ALL_OF, "unevaluatedProperties": False}


@pytest.mark.parametrize(
    "schema",
    [
        ALL_OF,
        ALL_OF_REFERENCES,
        BESIDE_REFERENCE,
        BESIDE_CHOICES,
        REQUIRED_CHOICES,
        INHERITED,
        UNEVALUATED,
        {"properties": {"deep": {"items": ALL_OF}}},
    ],
)
def test_parts_of_one_object_are_closed_together(schema: dict[str, Any]) -> None:
    value: Any = {"id": "x", "b": 1}
    invented: Any = {**value, "type": "object"}
    if "deep" in schema.get("properties", {}):
        value, invented = {"deep": [value]}, {"deep": [invented]}
    assert Draft202012Validator(schema).is_valid(value)
    assert takes(schema, value)
    assert not takes(schema, invented)


def test_alternative_does_not_take_the_names_of_another() -> None:
    assert takes(BESIDE_CHOICES, {"id": "x", "c": "y"})
    assert not takes(BESIDE_CHOICES, {"id": "x", "b": 1, "c": "y"})


def test_recursive_parts_stay_closed_at_every_depth() -> None:
    assert takes(INHERITED, {"id": "x", "next": {"id": "y", "b": 2}, "b": 1})
    assert not takes(INHERITED, {"id": "x", "next": {"id": "y", "b": 2, "c": 3}, "b": 1})


def test_references_without_end_are_bounded() -> None:
    parts = {f"P{n}": {"allOf": [{"$ref": f"#/$defs/P{m}"} for m in (n + 1, n + 2)],
                       "properties": {f"p{n}": TEXT}} for n in range(300)}  # fmt: skip
    schema = {"allOf": [{"$ref": "#/$defs/P0"}, {"$ref": "#/$defs/P0"}], "$defs": parts}
    assert with_closed_objects(schema).keys() == schema.keys()


def test_property_that_is_named_like_a_keyword_is_no_keyword() -> None:
    schema = {"properties": {"properties": TEXT, "allOf": TEXT}}
    assert with_closed_objects(schema) == {**schema, "additionalProperties": False}


def test_members_without_a_schema_follow_in_the_order_of_required() -> None:
    schema = {"type": "object", "properties": {"id": TEXT}, "required": ["name", "id", "age"]}
    assert takes(schema, {"id": "", "name": "Ada", "age": 36})
    assert not takes(schema, {"id": "", "age": 36, "name": "Ada"})
