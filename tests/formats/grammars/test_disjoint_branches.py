"""`oneOf` is enforced where no value can match two of its branches."""

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from mlxctl.formats.grammars.disjoint_branches import has_disjoint_branches
from mlxctl.ir.errors import InvalidRequest
from tests.formats.grammars.matching import accepts, compiled

NAMES = ("a", "b", "c")
CONSTANTS = (1, 1.0, True, "x", None)
LEAVES = st.one_of(
    st.sampled_from(("null", "boolean", "integer", "number", "string")).map(lambda kind: {"type": kind}),
    st.sampled_from(CONSTANTS).map(lambda value: {"const": value}),
    st.lists(st.sampled_from(CONSTANTS), min_size=1, max_size=2).map(lambda values: {"enum": values}),
    st.just({}),
)
OBJECTS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(("object", ["object", "null"])),
        "properties": st.dictionaries(st.sampled_from(NAMES), LEAVES, max_size=2),
        "required": st.lists(st.sampled_from(NAMES), max_size=2),
        "additionalProperties": st.just(False),
    },
)
SCHEMAS = st.one_of(
    LEAVES,
    OBJECTS,
    st.tuples(OBJECTS, LEAVES | OBJECTS).map(lambda parts: {"allOf": list(parts)}),
    st.just({"$ref": "#/$defs/named"}),
)
VALUES = st.one_of(
    st.sampled_from(CONSTANTS),
    st.dictionaries(st.sampled_from(NAMES), st.sampled_from(CONSTANTS), max_size=3),
)


@example([{"const": 1}, {"const": 1.0}], {}, {}, [1])
@example([{"properties": {}, "additionalProperties": False}, {"required": ["b"]}], {}, {}, ["x"])
@given(st.lists(SCHEMAS, min_size=2, max_size=3), OBJECTS, OBJECTS, st.lists(VALUES, max_size=8))
def test_no_value_matches_two_branches_that_are_found_disjoint(
    branches: list[Any], beside: Any, named: Any, values: list[Any]
) -> None:
    root = {**beside, "oneOf": branches, "$defs": {"named": named}}
    if has_disjoint_branches(root, root):
        validators = [Draft202012Validator({**branch, "$defs": root["$defs"]}) for branch in branches]
        for value in filter(Draft202012Validator(beside).is_valid, values):
            assert sum(validator.is_valid(value) for validator in validators) <= 1


@pytest.mark.parametrize(
    ("schema", "value", "wrong"),
    [
        (
            {
                "oneOf": [{"$ref": "#/$defs/date"}, {"type": "null"}],
                "$defs": {"date": {"type": "string", "format": "date"}},
            },
            "2026-11-29",
            "today",
        ),
        (
            {
                "type": "object",
                "properties": {"name": {"type": "string"}},
                "oneOf": [
                    {"properties": {"radius": {"type": "number"}}, "required": ["radius"]},
                    {"properties": {"side": {"type": "number"}}, "required": ["side"]},
                ],
            },
            {"name": "square", "side": 2},
            {"name": "both", "radius": 1, "side": 2},
        ),
    ],
)
def test_strict_schema_may_have_choices_that_exclude_each_other(schema: Any, value: Any, wrong: Any) -> None:
    whole = {"type": "object", "properties": {"v": schema}, "$defs": schema.get("$defs", {})}
    definition = compiled("json_schema", whole, is_strict=True)
    assert accepts(definition, {"v": value})
    assert not accepts(definition, {"v": wrong})


def test_strict_schema_with_overlapping_choices_is_refused() -> None:
    with pytest.raises(InvalidRequest, match="oneOf"):
        compiled(
            "json_schema", {"oneOf": [{"type": "string", "minLength": 1}, {"type": "string"}]}, is_strict=True
        )
