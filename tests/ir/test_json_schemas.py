"""Types of values and targets of references in schemas of clients."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.json_schemas import kind_of, pointer_keys, target

ROOT: dict[str, Any] = {
    "$defs": {
        "a/b": {"type": "string"},
        "m~n": {"type": "null"},
        "50%": True,
        "x": {"anyOf": [{"const": 1}, {"const": 2}]},
    },
    "properties": {"": {"type": "integer"}},
}


@pytest.mark.parametrize(
    ("reference", "found"),
    [
        ("#", ROOT),
        ("#/$defs/a~1b", {"type": "string"}),
        ("#/$defs/a/b", {"type": "string"}),
        ("#/$defs/m~0n", {"type": "null"}),
        ("#/$defs/50%25", True),
        ("#/$defs/x/anyOf/1", {"const": 2}),
        ("#/properties/", {"type": "integer"}),
    ],
)
def test_local_reference_names_a_part(reference: str, found: Any) -> None:
    assert target(ROOT, reference) == found


@pytest.mark.parametrize(
    "reference",
    [
        "#/$defs/none",
        "#/$defs/x/anyOf/2",
        "#/$defs/x/anyOf/-1",
        "#/$defs/x/anyOf",
        "#$defs",
        "other.json#/a",
        "",
        "#" + "/a" * 65,
    ],
)
def test_reference_without_a_schema_names_nothing(reference: str) -> None:
    assert target(ROOT, reference) is None


@given(
    st.recursive(
        st.booleans(),
        lambda inner: st.dictionaries(st.text("ab/~", max_size=3), inner, max_size=3),
        max_leaves=8,
    )
)
def test_each_part_is_found_by_its_escaped_pointer(root: Any) -> None:
    def check(node: Any, pointer: str) -> None:
        keys = pointer_keys(root, pointer)
        found = root
        for key in keys or ():
            found = found[key]
        # An unescaped slash may name another key that is written alike.
        assert keys is not None
        assert isinstance(found, type(node))
        if isinstance(node, dict):
            for key, inner in node.items():
                check(inner, f"{pointer}/{key.replace('~', '~0').replace('/', '~1')}")

    check(root, "")


def test_kinds_are_those_of_json() -> None:
    values = [None, True, 3, 3.0, "3", [3], {"three": 3}]
    assert [kind_of(value) for value in values] == [
        "null",
        "boolean",
        "integer",
        "number",
        "string",
        "array",
        "object",
    ]
