"""Splits a JSON schema into branches without references and combinations.

`$ref`, `allOf`, `anyOf` and `oneOf` are resolved at the top only; deeper levels stay unchanged. All schemas
here were accepted by llguidance: references are local and exist, types are known. Alternatives need not be
exclusive, as in llguidance's schemas that are not strict.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from mlxctl.formats.grammars.errors import UnsupportedSchema
from mlxctl.formats.grammars.number_ranges import needs_pattern, number_pattern
from mlxctl.ir import json_schemas

Schema = Mapping[str, Any]

KINDS = ("string", "number", "boolean", "null", "array", "object")
_MAX_BRANCHES = 64
_MAX_DEPTH = 32
_COMBINED = ("$ref", "allOf", "anyOf", "oneOf")
LIMITS = ("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
_LARGEST = ("minimum", "exclusiveMinimum", "minLength", "minItems")
_SMALLEST = ("maximum", "exclusiveMaximum", "maxLength", "maxItems")
# Keywords that do not constrain values, or are handled elsewhere.
_SILENT = frozenset(
    {
        "title",
        "description",
        "default",
        "examples",
        "deprecated",
        "readOnly",
        "writeOnly",
        "$comment",
        "$id",
        "$schema",
    }
)


class SchemaBranches:
    """Splits the parts of one schema; references start from `root`."""

    def __init__(self, root: Schema) -> None:
        self._root = root

    def of(self, schema: Any) -> list[Schema]:
        """Return the branches, one of which a value has to match.

        None where no value ever matches. Raises UnsupportedSchema.
        """
        return self._branches(schema, _MAX_DEPTH)

    def _branches(self, schema: Any, depth: int) -> list[Schema]:
        if isinstance(schema, bool):
            return [{}] if schema else []
        if not depth:
            raise UnsupportedSchema("it refers to itself, or is nested too deeply")
        own = {key: value for key, value in schema.items() if key not in _COMBINED and key not in _SILENT}
        groups: list[list[Schema]] = [[own]]
        if isinstance(reference := schema.get("$ref"), str):
            if (named := json_schemas.target(self._root, reference)) is None:
                raise UnsupportedSchema(f"its $ref {reference!r} cannot be followed")
            groups.append(self._branches(named, depth - 1))
        groups += [self._branches(part, depth - 1) for part in schema.get("allOf", ())]
        for key in ("anyOf", "oneOf"):
            if key in schema:
                groups.append([branch for part in schema[key] for branch in self._branches(part, depth - 1)])
        return list(self._merged(groups))

    def _merged(self, groups: Sequence[Sequence[Schema]]) -> Iterator[Schema]:
        for index, parts in enumerate(product(*groups)):
            if index == _MAX_BRANCHES:
                raise UnsupportedSchema(f"it has more than {_MAX_BRANCHES} alternatives")
            merged: Schema | None = {}
            for part in parts:
                merged = merged if merged is None else _both(merged, part)
            if merged is not None and not _has_no_number(merged):
                yield merged


def kinds_of(branch: Schema) -> frozenset[str]:
    """Return the types that a branch allows; integers are numbers."""
    declared = branch.get("type", KINDS)
    listed = [declared] if isinstance(declared, str) else declared
    return frozenset("number" if kind == "integer" else kind for kind in listed)


def wants_integers(branch: Schema) -> bool:
    """Whether its numbers are integers."""
    declared = branch.get("type", KINDS)
    return (
        "integer" in declared and "number" not in declared
        if not isinstance(declared, str)
        else declared == "integer"
    )


def limits_of(branch: Schema) -> dict[str, Any]:
    """Return a branch's limits on numbers."""
    return {key: branch[key] for key in LIMITS if key in branch}


def listed_values(branch: Schema) -> list[Any] | None:
    """Return the values that a branch lists, of its types only.

    None where it lists none.
    """
    if "const" not in branch and "enum" not in branch:
        return None
    listed = [branch["const"]] if "const" in branch else branch["enum"]
    kinds = kinds_of(branch)
    whole = wants_integers(branch)
    return [
        value for value in listed
        if (kind := kind_of(value)) in kinds and not (whole and kind == "number" and value != int(value))
    ]  # fmt: skip


def kind_of(value: Any) -> str:
    """Return the type of a value; integers are numbers."""
    kind = json_schemas.kind_of(value)
    return "number" if kind == "integer" else kind


def additional(branch: Schema) -> Any:
    """Return the schema of an object's additional members, None if not allowed.

    They have to be requested, or the only members: a tool that names its arguments means these.
    """
    rest = branch.get("additionalProperties", "properties" not in branch)
    return None if rest is False or "patternProperties" in branch else rest


def _has_no_number(branch: Schema) -> bool:
    """Whether a branch is about numbers, and its limits leave none."""
    if kinds_of(branch) != {"number"} or "const" in branch or "enum" in branch:
        return False
    limits, is_integer = limits_of(branch), wants_integers(branch)
    return (
        needs_pattern(limits, is_integer=is_integer) and number_pattern(limits, is_integer=is_integer) == ""
    )


def _both(one: Schema, other: Schema) -> Schema | None:
    """Return the intersection of two branches, None if it is empty."""
    if "properties" in one or "properties" in other:
        one, other = _with_each_others_properties(one, other), _with_each_others_properties(other, one)
    merged = dict(one)
    for key, value in other.items():
        merged[key] = (
            _both_values(key, merged[key], value) if key in merged and merged[key] != value else value
        )
    if merged.get("type") == [] or merged.get("enum") == []:
        return None
    return merged


def _both_values(key: str, one: Any, other: Any) -> Any:
    match key:
        case "type":
            return _both_types(one, other)
        case "properties":
            return (
                {name: _all_of(one[name], other[name]) for name in one}
                if one.keys() == other.keys()
                else {**one, **other}
            )
        case "required":
            return [*one, *(name for name in other if name not in one)]
        case "enum":
            return [value for value in one if value in other]
        case "items" | "additionalProperties":
            return _all_of(one, other)
        case "pattern":
            return [*_listed(one), *_listed(other)]
    if key in _LARGEST:
        return max(one, other)
    if key in _SMALLEST:
        return min(one, other)
    raise UnsupportedSchema(f"it has conflicting values of {key!r}")


def _with_each_others_properties(schema: Schema, other: Schema) -> Schema:
    """Add the other's properties, with the schema of additional ones."""
    rest = schema.get("additionalProperties", True)
    own = schema.get("properties", {})
    added = {name: rest for name in other.get("properties", {}) if name not in own}
    return {**schema, "properties": {**own, **added}} if own or added else schema


def _both_types(one: Any, other: Any) -> list[str]:
    first, second = _listed(one), _listed(other)
    both = [kind for kind in first if kind in second]
    if "integer" not in both and {"integer", "number"} <= {*first, *second}:
        both.append("integer")
    return both


def _all_of(one: Any, other: Any) -> Any:
    return one if one == other or other is True else other if one is True else {"allOf": [one, other]}


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
