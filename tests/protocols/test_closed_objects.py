"""Objects of an answer's schema have only named properties."""

from typing import Any

import pytest

from mlxctl.protocols.closed_objects import with_closed_objects

TEXT = {"type": "string"}
CLOSED = {"properties": {"a": TEXT}, "additionalProperties": False}


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
        {"properties": {"a": TEXT}, "additionalProperties": True},
        {"properties": {"a": TEXT}, "additionalProperties": TEXT},
        {"allOf": [{"properties": {"a": TEXT}}, {"properties": {"b": TEXT}}]},
        {"properties": {"a": TEXT}, "anyOf": [{"properties": {"b": TEXT}}, {"properties": {"c": TEXT}}]},
        {"$defs": {"P": {"properties": {"a": TEXT}}}, "$ref": "#/$defs/P", "properties": {"b": TEXT}},
    ],
)
def test_objects_that_other_parts_may_extend_stay_open(schema: dict[str, Any]) -> None:
    assert with_closed_objects(schema) == schema


def test_property_that_is_named_like_a_keyword_is_no_keyword() -> None:
    schema = {"properties": {"properties": TEXT, "allOf": TEXT}}
    assert with_closed_objects(schema) == {**schema, "additionalProperties": False}
