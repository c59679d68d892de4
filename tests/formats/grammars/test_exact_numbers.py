"""Numbers beyond 64-bit floats are enforced as the schema writes them."""

import json
import re
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.formats.grammars import call_arguments
from mlxctl.formats.grammars.literals import LarkLiterals
from mlxctl.formats.grammars.number_ranges import number_pattern
from mlxctl.ir import TagNotation, ToolSpec
from mlxctl.ir.errors import InvalidRequest
from tests.formats.grammars.matching import accepts, compiled

ID = 1234567890123456789
FLOAT, DOUBLE, DECIMAL = 3.4028234663852886e38, 1.7976931348623157e308, 79228162514264337593543950335
_COMPARED = {
    "minimum": Fraction.__ge__,
    "maximum": Fraction.__le__,
    "exclusiveMinimum": Fraction.__gt__,
    "exclusiveMaximum": Fraction.__lt__,
}


def held(part: Any) -> dict[str, Any]:
    return {"type": "object", "properties": {"v": part}, "required": ["v"], "additionalProperties": False}


@pytest.mark.parametrize(
    ("part", "good", "bad"),
    [
        ({"const": ID}, [ID], [ID + 1, float(ID), "1234567890123456768"]),
        ({"const": -ID}, [-ID], [-ID - 1, ID]),
        ({"const": 12345678901234567890123}, [12345678901234567890123], [12345678901234567890124]),
        ({"enum": [ID, "a", None]}, [ID, "a", None], [ID + 1, "b"]),
        ({"enum": [{"id": ID, "on": [True]}]}, [{"id": ID, "on": [True]}], [{"id": ID + 1, "on": [True]}]),
        ({"type": "array", "items": {"enum": [ID, ID + 2]}}, [[], [ID, ID + 2]], [[ID + 1]]),
        ({"anyOf": [{"type": "null"}, {"const": ID}]}, [None, ID], [ID + 1]),
        ({"type": "integer", "minimum": 2**53 + 1, "maximum": 2**53 + 1}, [2**53 + 1], [2**53, 2**53 + 2]),
        ({"type": "integer", "exclusiveMinimum": -(2**60)}, [-(2**60) + 1], [-(2**60)]),
        ({"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1}, [-(2**63), 0, 2**63 - 1], [2**63]),
        ({"type": "integer", "maximum": 2**64 - 1}, [2**64 - 1], [2**64]),
        ({"type": "number", "minimum": -DOUBLE, "maximum": DOUBLE}, [0, -1.5, 10**300], [10**309]),
        ({"type": "number", "minimum": -FLOAT, "maximum": FLOAT}, [0.25, -(10**38)], [10**39]),
        ({"type": "number", "minimum": 0.01, "maximum": DECIMAL}, [0.01, 1.5, DECIMAL], [0, 0.009, 10**29]),
        ({"type": "number", "minimum": 5e-324}, [1, 0.001], [0, -1]),
        ({"type": "integer", "multipleOf": 10**18}, [0, 5 * 10**18], [10**17]),
        ({"type": "integer", "multipleOf": ID, "minimum": 1, "maximum": 3 * ID}, [ID, 3 * ID], [ID + 1]),
        ({"type": "integer", "multipleOf": 5, "minimum": 1, "maximum": 2**63 - 1}, [5, 100], [0, 3]),
    ],
)  # fmt: skip
@pytest.mark.parametrize("is_strict", [True, False])
def test_numbers_are_those_of_the_schema(part: Any, good: Any, bad: Any, is_strict: bool) -> None:
    definition = compiled("json_schema", held(part), is_strict=is_strict)
    assert [value for value in good if not accepts(definition, {"v": value})] == []
    assert [value for value in bad if accepts(definition, {"v": value})] == []


def test_other_parts_of_such_a_schema_are_enforced_as_well() -> None:
    schema = held({"$ref": "#/$defs/node"}) | {
        "$defs": {
            "node": {
                "type": "object",
                "properties": {
                    "id": {"type": "integer", "minimum": 1, "maximum": 2**63 - 1},
                    "name": {"type": "string", "pattern": "^[a-z]+$"},
                    "next": {"$ref": "#/$defs/node"},
                },
                "required": ["id", "name"],
                "additionalProperties": False,
            }
        }
    }
    definition = compiled("json_schema", schema, is_strict=True)
    assert accepts(definition, {"v": {"id": ID, "name": "a", "next": {"id": 2**63 - 1, "name": "b"}}})
    assert not accepts(definition, {"v": {"id": ID, "name": "A"}})
    assert not accepts(definition, {"v": {"id": ID, "name": "a", "next": {"id": 2**63, "name": "b"}}})


def test_arguments_between_tags_have_exact_numbers() -> None:
    tool = ToolSpec(name="f", parameters=held({"enum": [ID, ID + 2]}), is_strict=True)
    notation = TagNotation(begin="<{name}>", end="</{name}>", ends=("</",), head="<call ")
    definition = call_arguments(tool, notation, LarkLiterals(()))
    assert accepts(definition, f"<v>{ID}</v>")
    assert not accepts(definition, f"<v>{ID + 1}</v>")


@pytest.mark.parametrize(
    ("part", "what"),
    [
        ({"type": "integer", "multipleOf": 2**53 + 1}, "multiples of 9007199254740993"),
        (
            {"type": "integer", "minimum": 2**60, "maximum": 2**59},
            "no value matches its required property 'v'",
        ),
    ],
)
def test_what_cannot_be_exact_is_named_only_when_strict(part: Any, what: str) -> None:
    assert accepts(compiled("json_schema", held(part)), {"v": 0})
    with pytest.raises(InvalidRequest, match=what):
        compiled("json_schema", held(part), is_strict=True)


def test_many_listed_numbers_are_one_step() -> None:
    listed = [10**18 + 7 * index for index in range(5000)]
    definition = compiled("json_schema", held({"enum": listed}), is_strict=True)
    assert accepts(definition, {"v": listed[4321]})
    assert not accepts(definition, {"v": listed[4321] + 1})


_SIZES = st.sampled_from([60, 10**4, 10**18, 10**30])
_INTEGERS = _SIZES.flatmap(lambda size: st.integers(-size, size))
_LIMITS = st.fixed_dictionaries(
    {}, optional=dict.fromkeys(_COMPARED, _INTEGERS) | {"multipleOf": st.sampled_from([1, 10, 7, 10**17])}
)


@given(
    limits=_LIMITS,
    base=_INTEGERS,
    offset=st.integers(-2, 2),
    is_integer=st.booleans(),
    key=st.sampled_from([*_COMPARED]),
)
def test_pattern_matches_the_numbers_within_limits(
    limits: dict[str, int], base: int, offset: int, is_integer: bool, key: str
) -> None:
    pattern = number_pattern(limits, is_integer=is_integer)
    if pattern is None:
        assert limits["multipleOf"] not in (1, 10, 10**17)
        return
    number = limits.get(key, base) + offset
    allowed = all(
        _COMPARED[key](Fraction(number), Fraction(limits[key])) for key in _COMPARED if key in limits
    )
    allowed = allowed and number % limits.get("multipleOf", 1) == 0
    assert (re.fullmatch(pattern, str(number)) is not None) == allowed


@given(
    low=st.decimals(-9, 9, places=2), high=st.decimals(-9, 9, places=2), number=st.decimals(-10, 10, places=2)
)
def test_pattern_matches_decimals_within_limits(low: Decimal, high: Decimal, number: Decimal) -> None:
    pattern = number_pattern({"minimum": float(low), "maximum": float(high)}, is_integer=False)
    assert pattern is not None
    is_matched = bool(pattern) and re.fullmatch(pattern, json.dumps(float(number))) is not None
    # A range inside one integer needs all its digits written.
    assert is_matched == (low <= number <= high) or int(low) == int(high)


def test_parts_beside_exact_numbers_keep_the_draft_of_their_schema() -> None:
    named = {"type": "object", "propertyNames": {"maxLength": 1}, "properties": {"name": {"type": "string"}}}
    schema = {
        "$schema": "http://json-schema.org/draft-04/schema#",
        "type": "object",
        "properties": {"named": named, "id": {"const": 2**60 + 1}},
    }
    definition = compiled("json_schema", schema, is_strict=True)
    assert accepts(definition, {"named": {"name": "Ada"}, "id": 2**60 + 1})
    assert not accepts(definition, {"named": {"name": "Ada"}, "id": 2**60})
