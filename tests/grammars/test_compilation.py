"""A form that cannot be enforced is refused with what is wrong and where; one that can becomes a grammar."""

from typing import Any

import pytest

from mlxctl.errors import InvalidRequest
from mlxctl.grammars import MAX_GRAMMAR_BYTES, compile_constraint
from mlxctl.ir import Constraint

STRICT = {"is_strict": True}


def compiled(kind: Any, value: Any, **more: Any) -> Any:
    return compile_constraint(Constraint(kind=kind, value=value, param="form", **more))


@pytest.mark.parametrize(
    ("schema", "more", "where", "what"),
    [
        ({"type": "objekt"}, {}, "form", "objekt"),
        (
            {"type": "object", "properties": {"a": {"items": {"type": "no"}}}},
            {},
            "form.properties.a.items",
            "no",
        ),
        ({"anyOf": [{"type": "string"}, {"type": "nothing"}]}, {}, "form.anyOf[1]", "nothing"),
        ({"type": "integer", "minimum": 3, "maximum": 1}, {}, "form", "minimum"),
        ({"$ref": "#/$defs/item", "$defs": {"item": {"type": 5}}}, {}, "form.$defs.item", "type"),
        ({"properties": {"a": {"$ref": "#/$defs/other"}}, "$defs": {}}, {}, "form.properties.a", "other"),
        ({"$ref": "http://elsewhere.invalid/schema"}, {}, "form", "elsewhere"),
        ({"type": "string", "pattern": "(?=a)b"}, {}, "form", "look-ahead"),
        (
            {"type": "array", "items": {"type": "array", "uniqueItems": True}},
            STRICT,
            "form.items",
            "uniqueItems",
        ),
        ({"type": "string", "format": "telepathy"}, STRICT, "form", "telepathy"),
    ],
)
def test_a_schema_is_refused_at_the_place_of_its_mistake(
    schema: Any, more: Any, where: str, what: str
) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        compiled("json_schema", schema, **more)
    assert refused.value.param == where
    assert where in str(refused.value)
    assert "\n" not in str(refused.value)


def test_what_of_a_schema_cannot_be_enforced_is_left_to_the_model_unless_it_is_strict() -> None:
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
def test_a_text_that_is_no_grammar_is_refused(kind: str, value: str, what: str) -> None:
    with pytest.raises(InvalidRequest, match=what) as refused:
        compiled(kind, value)
    assert refused.value.param == "form"


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
def test_every_kind_of_form_becomes_a_grammar(kind: str, value: Any) -> None:
    assert set(compiled(kind, value)) <= {"json_schema", "lark_grammar"}


@pytest.mark.parametrize(
    ("kind", "value"),
    [("regex", "a" * MAX_GRAMMAR_BYTES), ("json_schema", {"enum": ["x" * MAX_GRAMMAR_BYTES]})],
)
def test_a_form_may_not_be_larger_than_the_limit(kind: str, value: Any) -> None:
    with pytest.raises(InvalidRequest, match=str(MAX_GRAMMAR_BYTES)):
        compiled(kind, value)
