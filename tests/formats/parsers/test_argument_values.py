"""Unquoted values are converted by the schema of their argument."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.formats.parsers.argument_values import value_as_json
from mlxctl.formats.parsers.json_value import parse_json
from mlxctl.formats.parsers.python_value import literal_as_json
from mlxctl.formats.parsers.schemas import ToolSchemas
from mlxctl.ir import ToolSpec


def _kinds(schema: Any, **more: Any) -> Any:
    parameters = {"type": "object", "properties": {"a": schema}, **more}
    return ToolSchemas((ToolSpec(name="f", parameters=parameters),)).kinds("f", "a")


@pytest.mark.parametrize(
    ("schema", "text", "expected"),
    [
        ({"type": "string"}, "5", '"5"'),
        ({"type": "string"}, ' "x" ', '" \\"x\\" "'),
        ({"type": "integer"}, " 5\n", "5"),
        ({"type": "integer"}, "5.0", "5"),
        ({"type": "integer"}, "five", '"five"'),
        ({"type": "number"}, "1.50", "1.50"),
        ({"type": "number"}, "5.0", "5"),
        ({"type": ["number", "null"]}, "-2.00", "-2"),
        ({"type": "number"}, "1.5e3", "1.5e3"),
        ({"type": ["number", "string"]}, "5.0", "5.0"),
        ({"type": "number"}, "3", "3"),
        ({"type": "number"}, "Infinity", '"Infinity"'),
        ({"type": "number"}, "1e999", '"1e999"'),
        ({"type": "boolean"}, "True", "true"),
        ({"type": "null"}, "None", "null"),
        ({"type": "object"}, "{'a': (1, None)}", '{"a": [1, null]}'),
        ({"type": "array"}, "[1, 2", '"[1, 2"'),
        ({"type": ["string", "integer"]}, "5", "5"),
        ({"type": ["string", "integer"]}, "5.5", '"5.5"'),
        ({"type": ["string", "null"]}, "null", "null"),
        ({"type": "string", "nullable": True}, "null", "null"),
        ({"anyOf": [{"type": "string"}, {"type": "array"}]}, "[1]", "[1]"),
        ({"anyOf": [{"type": "integer"}, {"type": "null"}]}, "none", "null"),
        ({"enum": ["1", "2"]}, "1", '"1"'),
        ({"const": 1}, "1", "1"),
        ({"allOf": [{"type": ["string", "integer"]}, {"type": "string"}]}, "1", '"1"'),
        ({"$ref": "#/$defs/text"}, "1", '"1"'),
        ({"$ref": "#/$defs/List<text>"}, "1", '"1"'),
        ({"$ref": "#/$defs/List%3Ctext%3E"}, "1", '"1"'),
        ({"$ref": "#/$defs/either/anyOf/1"}, "1", '"1"'),
        ({}, "1", "1"),
        ({}, "one", '"one"'),
        ({}, '"one"', '"\\"one\\""'),
        ("nonsense", "true", "true"),
        ({"type": 5, "anyOf": "x", "$ref": ["y"]}, "{}", "{}"),
    ],
)
def test_schema_decides_the_type_of_a_plain_value(schema: Any, text: str, expected: str) -> None:
    text_schema = {"type": "string"}
    either = {"anyOf": [{"type": "integer"}, text_schema]}
    kinds = _kinds(schema, **{"$defs": {"text": text_schema, "List<text>": text_schema, "either": either}})
    assert value_as_json(text, kinds) == expected


def test_recursive_schemas_have_no_types() -> None:
    assert _kinds({"$ref": "#/properties/a"}) is None
    assert _kinds({"$ref": "elsewhere"}) is None


@given(
    st.text(),
    st.sampled_from(
        [None, *map(frozenset, ({"string"}, {"integer"}, {"object", "array"}, {"string", "null"}))]
    ),
)
def test_any_text_becomes_valid_utf8_json(text: str, kinds: Any) -> None:
    json_text = value_as_json(text, kinds)
    json_text.encode()
    json.loads(json_text)


@given(
    st.recursive(
        st.none()
        | st.booleans()
        | st.integers()
        | st.floats(allow_nan=False, allow_infinity=False)
        | st.text(),
        lambda inner: (
            st.lists(inner, max_size=3)
            | st.dictionaries(st.text(), inner, max_size=3)
            | st.tuples(inner, inner)
        ),
        max_leaves=8,
    )
)
def test_python_literals_round_trip(value: Any) -> None:
    converted = literal_as_json(repr(value))
    assert converted is not None
    assert parse_json(converted) == json.loads(json.dumps(value))


@pytest.mark.parametrize(
    "text", ["1 + 1", "f()", "'a' 'b'", "[1,,2]", "{1: 2}", "nan", "inf", "1e999", "'open", "{", "", "x"]
)
def test_other_texts_are_no_python_literals(text: str) -> None:
    assert literal_as_json(text) is None
