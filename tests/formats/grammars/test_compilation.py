"""Constraints compile to grammars, or raise with reason and location."""

from typing import Any

import pytest

from mlxctl.formats.grammars import MAX_GRAMMAR_BYTES
from mlxctl.ir.errors import InvalidRequest
from tests.formats.grammars.matching import accepts, compiled

STRICT = {"is_strict": True}


@pytest.mark.parametrize(
    ("schema", "more", "where", "what"),
    [
        ({"type": "objekt"}, {}, "schema", "objekt"),
        (
            {"type": "object", "properties": {"a": {"items": {"type": "no"}}}},
            {},
            "schema.properties.a.items",
            "no",
        ),
        ({"anyOf": [{"type": "string"}, {"type": "nothing"}]}, {}, "schema.anyOf[1]", "nothing"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, {}, "schema", "minimum"),
        ({"$ref": "#/$defs/item", "$defs": {"item": {"type": 5}}}, {}, "schema.$defs.item", "type"),
        ({"properties": {"a": {"$ref": "#/$defs/other"}}, "$defs": {}}, {}, "schema.properties.a", "other"),
        ({"$ref": "http://elsewhere.invalid/schema"}, {}, "schema", "elsewhere"),
        ({"type": "string", "pattern": "(?=a)b"}, STRICT, "schema", "look-ahead"),
        (
            {"type": "array", "items": {"type": "array", "uniqueItems": True}},
            STRICT,
            "schema.items",
            "uniqueItems",
        ),
        ({"type": "string", "format": "json-pointer"}, STRICT, "schema", "json-pointer"),
    ],
)
def test_invalid_schema_names_the_location_of_the_error(
    schema: Any, more: Any, where: str, what: str
) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        compiled("json_schema", schema, **more)
    assert refused.value.param == where
    assert where in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 2.0},
        {"type": "object", "if": {"required": ["a"]}, "unevaluatedProperties": True},
        {"type": "object", "then": {"required": ["a"]}, "propertyNames": {}, "minProperties": 0},
        {"type": "array", "items": {"not": False, "type": "string"}, "uniqueItems": False},
        {"type": "object", "properties": {"not": {"type": "string", "dependentRequired": {}}}},
        {"type": "string", "format": "path"},
    ],
)
def test_strict_schema_may_have_keywords_without_effect(schema: dict[str, Any]) -> None:
    assert compiled("json_schema", schema, **STRICT)["json_schema"]["type"] == schema["type"]


@pytest.mark.parametrize(
    "part",
    [
        {"type": "string", "pattern": r"^(?!\.)(?!.*\.\.)[a-z.]+@[a-z]+$"},
        {"type": "string", "pattern": r"^(?!^[-+.]*$)[+-]?0*\d*\.?\d*$"},
        {"type": "string", "pattern": r"^(['\"]).*\1$"},
        {"type": "string", "pattern": r"(?<=x)y\0"},
        {"type": "string", "minLength": 2**31 - 1},
        {"type": "object", "patternProperties": {"(?=a)b": {"type": "string"}}},
    ],
)
def test_keyword_that_cannot_be_enforced_is_dropped_at_its_place(part: Any) -> None:
    schema = {"type": "object", "properties": {"a": part, "b": {"type": "integer"}}, "required": ["a", "b"]}
    value = {} if part["type"] == "object" else "?"
    definition = compiled("json_schema", schema)
    assert accepts(definition, {"a": value, "b": 1})
    assert not accepts(definition, {"a": 5, "b": 1})
    assert not accepts(definition, {"a": value, "b": "x"})
    with pytest.raises(InvalidRequest) as refused:
        compiled("json_schema", schema, **STRICT)
    assert str(refused.value.param).startswith("schema.properties.a")


@pytest.mark.parametrize("length", [2**31 - 1, 2**32, 2**53 - 1, 1e10])
def test_length_that_no_answer_reaches_is_no_limit(length: float) -> None:
    listed = {"type": "array", "items": {"type": "string", "maxLength": length}, "maxItems": length}
    definition = compiled("json_schema", listed, **STRICT)
    assert accepts(definition, ["abc"])
    assert not accepts(definition, [1])


def test_unenforceable_keywords_raise_only_when_strict() -> None:
    assert compiled("json_schema", {"type": "array", "uniqueItems": True, "items": {"format": "telepathy"}})
    with pytest.raises(InvalidRequest):
        compiled("json_schema", {"type": "array", "uniqueItems": True}, **STRICT)


@pytest.mark.parametrize(
    ("kind", "value", "what"),
    [
        ("regex", "(", "unclosed group"),
        ("regex", "(?=a)b", "look-ahead"),
        ("grammar", "start: nowhere", "nowhere"),
        ("grammar", "this is none", "Expected"),
        ("grammar", 'root ::= "a" (', "GBNF"),
        ("grammar", "root ::= nowhere", "nowhere"),
    ],
)
def test_invalid_grammar_text_raises(kind: str, value: str, what: str) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        compiled(kind, value)
    assert refused.value.param == "schema"


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        ("json_object", {"type": "object"}),
        ("regex", "[0-9]{4}-[0-9]{2}"),
        ("choice", ("yes", 'with "quotes"\nand lines')),
        ("grammar", 'start: "a" | "b"'),
        ("grammar", 'root ::= "a" | [0-9]+'),
    ],
)
def test_every_kind_of_constraint_compiles(kind: str, value: Any) -> None:
    assert set(compiled(kind, value)) <= {"json_schema", "lark_grammar"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("regex", "a" * MAX_GRAMMAR_BYTES), ("json_schema", {"enum": ["x" * MAX_GRAMMAR_BYTES]})],
)
def test_constraint_above_the_size_limit_raises(kind: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=str(MAX_GRAMMAR_BYTES)):
        compiled(kind, value)


@pytest.mark.parametrize(
    "part",
    [
        {"$ref": "#/$defs/list", "anyOf": [{"required": ["next"]}, {"required": ["last"]}]},
        {"type": "object", "patternProperties": {"a": {"type": "string"}, "b": {"type": "null"}}},
        {"allOf": [{"type": "string", "pattern": "^([a-z][0-9])+$"}, {"type": "string", "minLength": 10000}]},
    ],
)
def test_keywords_that_cannot_be_enforced_together_are_dropped_at_their_part(part: Any) -> None:
    schema = {
        "type": "object",
        "properties": {"free": part, "kept": {"type": "integer"}},
        "$defs": {"list": part},
        "additionalProperties": False,
    }
    with pytest.raises(InvalidRequest):
        compiled("json_schema", schema, **STRICT)
    definition = compiled("json_schema", schema)
    assert any(accepts(definition, {"free": value, "kept": 1}) for value in ({}, "short"))
    assert not accepts(definition, {"kept": "1"})
