"""Schemas whose objects have only the properties that they name.

JSON Schema allows others where `additionalProperties` is missing. Other servers do not generate any, schemas
that pydantic writes rely on it, and weak models copy a tool's schema into the arguments of its calls.

Several parts of a schema may describe one object: `allOf`, `anyOf`, `$ref` and others beside `properties`.
Each is closed with the names of the others allowed, so that together they stay satisfiable; a reference among
such parts then refers to a copy of its target. An object of which any part says something about further
properties stays as it is, as does one without named properties.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from mlxctl.ir.json_schemas import target

Schema = dict[str, Any]

_VALUE_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_VALUE_LISTS = ("prefixItems", "items")
_VALUES = ("items", "additionalProperties")
# These are not enforced, but name properties.
_UNCHANGED = ("if", "then", "else")
_UNCHANGED_MAPS = ("dependentSchemas", "dependencies")
_MAX_COPIES = 256


class _TooManyCopies(Exception):
    """References among the parts of objects need too many copies."""


@dataclass(frozen=True, slots=True)
class _Group:
    """Parts under `key` of which one describes the object.

    A part of `allOf` is a group of its own, `at` its place there.
    """

    key: str
    parts: tuple[Any, ...]
    at: int = 0


def with_closed_objects(schema: Mapping[str, Any]) -> Schema:
    """Return the schema with objects that have only named properties.

    One with very many references among the parts of objects stays open.
    """
    closer = _Closer(schema)
    try:
        return closer.closed_root()
    except _TooManyCopies:
        return dict(schema)


class _Closer:
    """Closes the objects of one schema; references start from `root`."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._names_of_copies: dict[tuple[str, frozenset[str], bool], str] = {}
        # A copy is closed after the schema that refers to it: references may lead through all others.
        self._left: list[tuple[str, frozenset[str], bool]] = []

    def closed_root(self) -> Schema:
        """Return the whole schema closed, with the copies that it refers to."""
        closed: Schema = self._value(self._root)
        copies: Schema = {}
        while self._left:
            reference, others, may_close = key = self._left.pop()
            copies[self._names_of_copies[key]] = self._closed(
                target(self._root, reference), others, may_close=may_close
            )
        if copies:
            closed["$defs"] = {**closed.get("$defs", {}), **copies}
        return closed

    def _value(self, part: Any) -> Any:
        """Return the schema of a value that no other part describes."""
        return self._closed(part, frozenset(), may_close=True)

    def _closed(self, part: Any, others: frozenset[str], *, may_close: bool) -> Any:
        """Return a schema closed.

        `others` are the names that other parts give the same object; `may_close` is false where one of them
        leaves it open.
        """
        if not isinstance(part, Mapping):
            return part
        closed = dict(part)
        for key in _VALUE_MAPS:
            if isinstance(named := part.get(key), dict):
                closed[key] = {name: self._value(each) for name, each in named.items()}
        for key in _VALUE_LISTS:
            if isinstance(listed := part.get(key), list):
                closed[key] = [self._value(each) for each in listed]
        for key in _VALUES:
            if isinstance(part.get(key), dict):
                closed[key] = self._value(part[key])
        groups = _groups(part)
        names = [self._names(group.parts) for group in groups]
        are_open = [self._leaves_open(group.parts) for group in groups]
        own, is_open = _own_names(part), _says_more(part)
        for index, group in enumerate(groups):
            rest = [*range(index), *range(index + 1, len(groups))]
            known = others.union(own, *(names[each] for each in rest))
            may_close_group = may_close and not (is_open or any(are_open[each] for each in rest))
            _put(closed, group, [self._part(each, known, may_close_group) for each in group.parts])
        if may_close and not is_open and not any(are_open) and isinstance(part.get("properties"), dict):
            allowed = others.union(own, *names) - part["properties"].keys()
            # Members are generated in the order of the properties: those of `required` as they are listed.
            listed = [name for name in _required(part) if name in allowed]
            closed["properties"] |= dict.fromkeys([*listed, *sorted(allowed)], True)
            closed.setdefault("additionalProperties", False)
        return closed

    def _part(self, part: Any, others: frozenset[str], may_close: bool) -> Any:
        """Return a part of an object closed.

        A reference becomes one to a copy of its target, if other parts matter.
        """
        if not isinstance(part, str):
            return self._closed(part, others, may_close=may_close)
        named = target(self._root, part)
        if not isinstance(named, Mapping) or (may_close and not others):
            return part
        key = part, others, may_close
        if key not in self._names_of_copies:
            if len(self._names_of_copies) == _MAX_COPIES:
                raise _TooManyCopies
            taken = self._root.get("$defs")
            name = f"part{len(self._names_of_copies)}"
            while isinstance(taken, Mapping) and name in taken:
                name += "_"
            self._names_of_copies[key] = name
            self._left.append(key)
        return f"#/$defs/{self._names_of_copies[key]}"

    def _names(self, parts: Iterable[Any]) -> frozenset[str]:
        """Return the names that parts give their object."""
        return frozenset().union(*(_own_names(each) for each in self._all_of_object(parts)))

    def _leaves_open(self, parts: Iterable[Any]) -> bool:
        """Whether one of the parts says something about further properties."""
        return any(map(_says_more, self._all_of_object(parts)))

    def _all_of_object(self, parts: Iterable[Any]) -> list[Mapping[str, Any]]:
        """Return the parts, and those in them that describe the same object."""
        found: list[Mapping[str, Any]] = []
        seen: set[str] = set()
        left = list(parts)
        while left:
            part = left.pop()
            if isinstance(part, str):
                if part in seen:
                    continue
                seen.add(part)
                part = target(self._root, part)
            if isinstance(part, Mapping):
                found.append(part)
                left += [each for group in _groups(part) for each in group.parts]
        return found


def _groups(part: Mapping[str, Any]) -> list[_Group]:
    """Return the parts that describe the same object as a schema.

    A reference is its text.
    """
    groups = [_Group(key, tuple(part[key])) for key in ("anyOf", "oneOf") if isinstance(part.get(key), list)]
    if isinstance(all_of := part.get("allOf"), list):
        groups += [_Group("allOf", (each,), at) for at, each in enumerate(all_of)]
    if isinstance(reference := part.get("$ref"), str):
        groups.append(_Group("$ref", (reference,)))
    groups += [_Group(key, (part[key],)) for key in _UNCHANGED if key in part]
    for key in _UNCHANGED_MAPS:
        if isinstance(named := part.get(key), dict):
            groups.append(_Group(key, tuple(named.values())))
    return groups


def _put(closed: Schema, group: _Group, parts: list[Any]) -> None:
    """Set the changed parts of a group."""
    if group.key in ("anyOf", "oneOf"):
        closed[group.key] = parts
    elif group.key == "$ref":
        closed["$ref"] = parts[0]
    elif group.key == "allOf":
        closed["allOf"] = [*closed["allOf"][: group.at], *parts, *closed["allOf"][group.at + 1 :]]


def _own_names(part: Mapping[str, Any]) -> frozenset[str]:
    properties = part.get("properties")
    return frozenset(properties if isinstance(properties, dict) else ()).union(_required(part))


def _required(part: Mapping[str, Any]) -> list[str]:
    required = part.get("required")
    return [name for name in required if isinstance(name, str)] if isinstance(required, list) else []


def _says_more(part: Mapping[str, Any]) -> bool:
    """Whether a schema says that there may be other properties."""
    return (
        part.get("additionalProperties", False) is not False
        or bool(part.get("patternProperties"))
        or part.get("unevaluatedProperties", False) is not False
    )
