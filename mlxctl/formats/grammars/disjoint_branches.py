"""Whether no value can match two branches of a `oneOf`. Pure.

Then it means `anyOf`, which llguidance enforces. What is found of a branch allows at least its values, so
that branches found disjoint are disjoint.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from itertools import combinations
from typing import Any

from mlxctl.ir.json_schemas import target

# All pairs are compared.
_MAX_BRANCHES = 64
_MAX_PARTS = 32
# Properties are compared, and theirs.
_MAX_DEPTH = 3
_KINDS = frozenset({"null", "boolean", "number", "string", "array", "object"})


@dataclass(slots=True)
class _Shape:
    """What the parts of a branch say together.

    `closed` has the names that each closed part allows. `values` are lists of which a value is in all.
    """

    kinds: frozenset[str] = _KINDS
    required: set[str] = field(default_factory=set)
    properties: dict[str, list[Any]] = field(default_factory=dict)
    closed: list[frozenset[str]] = field(default_factory=list)
    values: list[list[Any]] = field(default_factory=list)


def has_disjoint_branches(node: Mapping[str, Any], root: Mapping[str, Any]) -> bool:
    """Whether no value of `node` matches two schemas of its `oneOf`.

    References are pointers from the root.
    """
    branches = node["oneOf"]
    if len(branches) > _MAX_BRANCHES:
        return False
    shapes = [_shape([node, branch], root) for branch in branches]
    return all(_are_disjoint(one, other, root, depth=0) for one, other in combinations(shapes, 2))


def _shape(schemas: list[Any], root: Mapping[str, Any]) -> _Shape:
    shape = _Shape()
    for part in _parts(schemas, root):
        if isinstance(kinds := part.get("type"), str | list):
            named = [kinds] if isinstance(kinds, str) else kinds
            shape.kinds &= {"number" if kind == "integer" else str(kind) for kind in named}
        if isinstance(required := part.get("required"), list):
            shape.required.update(name for name in required if isinstance(name, str))
        properties = part.get("properties")
        properties = properties if isinstance(properties, dict) else {}
        for name, schema in properties.items():
            shape.properties.setdefault(name, []).append(schema)
        if part.get("additionalProperties") is False and not part.get("patternProperties"):
            shape.closed.append(frozenset(properties))
        if "const" in part:
            shape.values.append([part["const"]])
        if isinstance(listed := part.get("enum"), list):
            shape.values.append(listed)
    return shape


def _parts(schemas: list[Any], root: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """Yield the schemas, and those that they refer to or consist of."""
    waiting, num_left = list(schemas), _MAX_PARTS
    while waiting and num_left:
        part, num_left = waiting.pop(), num_left - 1
        if not isinstance(part, Mapping):
            continue
        yield part
        if isinstance(reference := part.get("$ref"), str):
            waiting.append(target(root, reference))
        if isinstance(all_of := part.get("allOf"), list):
            waiting += all_of


def _are_disjoint(one: _Shape, other: _Shape, root: Mapping[str, Any], *, depth: int) -> bool:
    kinds = one.kinds & other.kinds
    if not kinds:
        return True
    if any(not _common(left, right) for left in one.values for right in other.values):
        return True
    if kinds != {"object"} or depth == _MAX_DEPTH:
        return False
    if any(one.required - names for names in other.closed) or any(
        other.required - names for names in one.closed
    ):
        return True
    common = one.required & other.required & one.properties.keys() & other.properties.keys()
    return any(
        _are_disjoint(
            _shape(one.properties[name], root), _shape(other.properties[name], root), root, depth=depth + 1
        )
        for name in common
    )


def _common(left: list[Any], right: list[Any]) -> bool:
    """Whether two lists have a value in common.

    1 and 1.0 are equal, 1 and true are not.
    """
    return any(
        one == other and isinstance(one, bool) == isinstance(other, bool) for one in left for other in right
    )
