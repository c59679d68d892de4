"""Schemas of tools in the plain form that chat templates read.

A template that writes its own notation reads `type`, `enum`, `properties`, `items` and `description`. So
references are resolved, `allOf` is merged, and of `anyOf`, `oneOf` and lists of types one type is left; where
the template does not show the rest, the description of the argument tells the whole type. Only templates see
these schemas: grammars and parsers keep the client's.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from mlxctl.ir.json_schemas import kind_of, target

Schema = dict[str, Any]

_MAX_DEPTH = 24
_MAX_BRANCHES = 20_000
# References multiply: a schema of 128 KiB can describe a tree of any size. Past this number of schemas in
# references, a reference that was read before is cut off.
_MAX_REFERRED = 1000
_MAX_NOTE_CHARS = 128 << 10
_UNION = "union"
_HANDLED = frozenset(
    {
        "$ref", "allOf", "anyOf", "oneOf", "const", "nullable", "$defs", "definitions", "$schema", "$id",
        "not", "if", "then", "else", "type", "enum", "description", "properties", "patternProperties",
        "additionalProperties", "required", "items", "prefixItems",
    }
)  # fmt: skip
_KINDS_BY_KEYWORD = {
    "properties": "object", "patternProperties": "object", "additionalProperties": "object",
    "required": "object", "items": "array", "prefixItems": "array", "minItems": "array", "maxItems": "array",
    "pattern": "string", "format": "string", "minLength": "string", "maxLength": "string",
    "minimum": "number", "maximum": "number", "multipleOf": "number",
}  # fmt: skip
_KINDS = frozenset({"string", "integer", "number", "boolean", "array", "object", "null"})


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownTypes:
    """What a template shows of plain schemas.

    `hidden` are the traits of arguments that it leaves out. A trait is a fact (`type`, `enum`, `numbers`,
    which is an enum of other values than strings, or `nullable`) after up to two containers around it
    (`member`, `items` or `map`) or the word `deep`: `items.enum`, `member.map.type`, `deep.nullable`.
    `shows_descriptions` is that of arguments.
    """

    hidden: frozenset[str] = frozenset()
    shows_descriptions: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class _Plain:
    """A plain schema, its whole type as text, its traits and members."""

    schema: Schema
    text: str
    traits: frozenset[str] = frozenset()
    members: Mapping[str, "_Plain"] = field(default_factory=dict)


def plain_tool(tool: Mapping[str, Any], shown: ShownTypes) -> Mapping[str, Any]:
    """Return a tool definition of which a template shows every type."""
    function = tool["function"]
    parameters = {"type": "object", **function["parameters"]}
    whole = _Reader(parameters).read(parameters, (), _MAX_DEPTH)
    properties: Schema = {}
    notes: list[str] = []
    num_chars_left = _MAX_NOTE_CHARS
    for name, argument in whole.members.items():
        properties[name] = argument.schema
        if argument.text != "string" and argument.traits & (shown.hidden | {_UNION}):
            note = argument.text[:num_chars_left]
            num_chars_left -= len(note)
            if shown.shows_descriptions:
                text = f"{argument.schema['description']} (type: {note})".lstrip()
                properties[name] = {**argument.schema, "description": text}
            else:
                notes.append(f"{name}: {note}")
    description = function["description"]
    if notes:
        description = f"{description} Types of the arguments: {'; '.join(notes)}".lstrip()
    plain = {"type": "object", "properties": properties, "required": whole.schema.get("required", [])}
    return {**tool, "function": {**function, "description": description, "parameters": plain}}


@dataclass(frozen=True, slots=True, kw_only=True)
class _Branch:
    """One alternative of a schema, and the references around it.

    It has no combining keywords.
    """

    schema: Schema
    opened: tuple[str, ...]


class _Reader:
    """Reads the schemas of one tool; references start from `root`.

    The client's schema may be wrong: what cannot be read is left out.
    """

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._num_branches = 0
        self._num_referred = 0
        self._referred: set[str] = set()

    def read(self, schema: Any, opened: tuple[str, ...], depth: int) -> _Plain:
        """Return the plain form of a schema inside the references `opened`."""
        if not depth or not isinstance(schema, Mapping):
            return _any()
        self._num_referred += bool(opened)
        plains = [
            self._plain(branch, kind, depth)
            for whole in self._branches(schema, opened, depth)
            for kind, branch in _by_kind(whole)
        ]
        return _one_of(plains, _text(schema.get("description")))

    def _branches(self, schema: Any, opened: tuple[str, ...], depth: int) -> list[_Branch]:
        """Return the alternatives of a schema."""
        if not depth or not isinstance(schema, Mapping):
            return [_Branch(schema={}, opened=opened)]
        own = {key: value for key, value in schema.items() if key not in ("$ref", "allOf", "anyOf", "oneOf")}
        if "const" in own:
            own["enum"] = [own.pop("const")]
        branches = [_Branch(schema=own, opened=opened)]
        if isinstance(reference := schema.get("$ref"), str):
            branches = self._both(branches, self._referred_to(reference, opened, depth))
        for part in _listed(schema.get("allOf")):
            branches = self._both(branches, self._branches(part, opened, depth - 1))
        for key in ("anyOf", "oneOf"):
            if choices := _listed(schema.get(key)):
                others = [other for each in choices for other in self._branches(each, opened, depth - 1)]
                branches = self._both(branches, others)
        return branches

    def _referred_to(self, reference: str, opened: tuple[str, ...], depth: int) -> list[_Branch]:
        is_spent = self._num_referred > _MAX_REFERRED and reference in self._referred
        named = target(self._root, reference)
        if reference in opened or is_spent:
            name = reference.rpartition("/")[2].lstrip("#") or "the whole object"
            kind = named.get("type") if isinstance(named, Mapping) else None
            cut = {"type": kind if kind in _KINDS else "object", "description": f"as described for {name}"}
            return [_Branch(schema=cut, opened=opened)]
        self._referred.add(reference)
        return self._branches(named, (*opened, reference), depth - 1)

    def _both(self, branches: Sequence[_Branch], others: Sequence[_Branch]) -> list[_Branch]:
        """Return the intersections of alternatives, as far as their number allows."""
        merged: list[_Branch] = []
        for one in branches:
            for other in others:
                if merged and self._num_branches >= _MAX_BRANCHES:
                    return merged
                self._num_branches += 1
                opened = (*one.opened, *(each for each in other.opened if each not in one.opened))
                merged.append(_Branch(schema=_merged(one.schema, other.schema), opened=opened))
        return merged

    def _plain(self, branch: _Branch, kind: str, depth: int) -> _Plain:
        """Return the plain form of an alternative of one type."""
        schema = branch.schema
        kept = {key: value for key, value in schema.items() if key not in _HANDLED}
        default = kept.get("default", "")
        # Templates join the default to a text beside listed values.
        if default is None or ("enum" in schema and not isinstance(default, str)):
            del kept["default"]
        kept = {"type": kind, "description": _text(schema.get("description")), **kept}
        if isinstance(listed := schema.get("enum"), list):
            trait = "enum" if kind == "string" else "numbers"
            text = " | ".join(json.dumps(value, ensure_ascii=False) for value in listed)
            return _Plain(
                schema={**kept, "enum": listed}, text=text or kind, traits=frozenset({"type", trait})
            )
        if kind == "object":
            return self._object(branch, kept, depth)
        if kind == "array":
            return self._array(branch, kept, depth)
        if kind in ("any", "null"):
            return _Plain(schema={**kept, "type": "string"}, text=kind, traits=frozenset({_UNION}))
        return _Plain(schema=kept, text=kind, traits=frozenset({"type"}))

    def _object(self, branch: _Branch, kept: Schema, depth: int) -> _Plain:
        schema, opened = branch.schema, branch.opened
        members = {
            str(name): self.read(member, opened, depth - 1)
            for name, member in _mapping(schema.get("properties")).items()
        }
        required = [
            name for name in _listed(schema.get("required")) if isinstance(name, str) and name in members
        ]
        kept |= {
            "properties": {name: member.schema for name, member in members.items()},
            "required": required,
        }
        others = [*_mapping(schema.get("patternProperties")).values(), schema.get("additionalProperties")]
        values = [self.read(value, opened, depth - 1) for value in others if isinstance(value, Mapping)]
        shown = [f"{name}{'' if name in required else '?'}: {each.text}" for name, each in members.items()]
        traits = _within("member", members.values())
        if values:
            kept["additionalProperties"] = values[0].schema
            shown += [f"[name]: {each.text}" for each in values]
            traits |= _within("map", values) | ({_UNION} if len(values) > 1 or members else set())
        text = f"{{{'; '.join(shown)}}}" if shown else "object"
        return _Plain(schema=kept, text=text, traits=traits | {"type"}, members=members)

    def _array(self, branch: _Branch, kept: Schema, depth: int) -> _Plain:
        schema, opened = branch.schema, branch.opened
        items = schema.get("items")
        first = _listed(schema.get("prefixItems")) or _listed(items)
        if first:
            places = [self.read(each, opened, depth - 1) for each in first]
            text = f"[{', '.join(each.text for each in places)}]"
            kept["items"] = _one_of(places, "").schema
            return _Plain(schema=kept, text=text, traits=frozenset({_UNION}))
        if not isinstance(items, Mapping):
            return _Plain(schema=kept, text="array", traits=frozenset({"type"}))
        item = self.read(items, opened, depth - 1)
        text = f"({item.text})[]" if " | " in item.text else f"{item.text}[]"
        return _Plain(
            schema={**kept, "items": item.schema}, text=text, traits=_within("items", [item]) | {"type"}
        )


def _by_kind(branch: _Branch) -> Iterable[tuple[str, _Branch]]:
    """Yield the types of an alternative, each with its listed values."""
    schema = branch.schema
    declared = schema.get("type")
    kinds = [kind for kind in (_listed(declared) or [declared]) if isinstance(kind, str)]
    if isinstance(listed := schema.get("enum"), list):
        found = dict.fromkeys(_kind_of(value, kinds) for value in listed)
        for kind in found:
            values = [value for value in listed if _kind_of(value, kinds) == kind]
            yield kind, replace(branch, schema={**schema, "enum": values})
        if found:
            return
        branch = replace(branch, schema={key: value for key, value in schema.items() if key != "enum"})
    guessed = next((kind for keyword, kind in _KINDS_BY_KEYWORD.items() if keyword in schema), "any")
    known = dict.fromkeys(kind if kind in _KINDS else "string" for kind in kinds)
    for kind in known or [guessed]:
        yield kind, branch
    if schema.get("nullable") is True:
        yield "null", branch


def _kind_of(value: Any, declared: Sequence[str]) -> str:
    kind = kind_of(value)
    return "number" if kind == "integer" and "number" in declared else kind


def _one_of(plains: Sequence[_Plain], description: str) -> _Plain:
    """Return one plain schema for alternatives.

    The types of all are in its text.
    """
    nulls = [plain for plain in plains if plain.text == "null"]
    rest = list({plain.text: plain for plain in plains if plain.text != "null"}.values())
    if not rest:
        rest, nulls = list(nulls[:1]) or [_any()], []
    whole = rest[0] if len(rest) == 1 else _union(rest)
    description = description or "; ".join(
        dict.fromkeys(text for plain in rest if (text := plain.schema["description"]))
    )
    schema = {**whole.schema, "description": description}
    if not nulls:
        return replace(whole, schema=schema)
    return replace(
        whole,
        schema={**schema, "nullable": True},
        text=f"{whole.text} | null",
        traits=whole.traits | {"nullable"},
    )


def _union(plains: Sequence[_Plain]) -> _Plain:
    """Return the first of several types, merged with others of that type."""
    first = plains[0]
    kind = first.schema["type"]
    alike = [plain for plain in plains if plain.schema["type"] == kind]
    traits = frozenset[str]().union(*(plain.traits for plain in plains))
    text = " | ".join(plain.text for plain in plains)
    schema = dict(first.schema)
    members: dict[str, _Plain] = {}
    if all("enum" in plain.schema for plain in alike):
        schema["enum"] = list(
            {json.dumps(value): value for plain in alike for value in plain.schema["enum"]}.values()
        )
        if len(alike) == len(plains):
            return _Plain(schema=schema, text=text, traits=traits)
    else:
        schema.pop("enum", None)
    if kind == "object":
        for name in dict.fromkeys(name for plain in alike for name in plain.members):
            members[name] = _one_of([plain.members[name] for plain in alike if name in plain.members], "")
        required = [
            name for name in members if all(name in plain.schema.get("required", ()) for plain in alike)
        ]
        schema |= {
            "properties": {name: member.schema for name, member in members.items()},
            "required": required,
        }
    return _Plain(schema=schema, text=text, traits=traits | {_UNION}, members=members)


def _merged(one: Schema, other: Schema) -> Schema:
    """Return what two schemas of one value say together.

    The first wins where they contradict.
    """
    merged = {**other, **one}
    for key in one.keys() & other.keys():
        first, second = one[key], other[key]
        match key:
            case "properties" if isinstance(first, Mapping) and isinstance(second, Mapping):
                both = {name: {"allOf": [first[name], second[name]]} for name in first if name in second}
                merged[key] = {**first, **second, **both}
            case "required":
                merged[key] = [*_listed(first), *_listed(second)]
            case "enum":
                merged[key] = [value for value in _listed(first) if value in _listed(second)] or first
            case "type":
                both_kinds = [
                    kind for kind in _listed(first) or [first] if kind in (_listed(second) or [second])
                ]
                merged[key] = both_kinds or first
            case "items" if isinstance(first, Mapping) and isinstance(second, Mapping):
                merged[key] = {"allOf": [first, second]}
            case "description":
                merged[key] = first or second
    return merged


def _any() -> _Plain:
    return _Plain(schema={"type": "string", "description": ""}, text="any", traits=frozenset({_UNION}))


def _within(container: str, plains: Iterable[_Plain]) -> frozenset[str]:
    """Return traits as seen from outside of a container."""

    def outer(trait: str) -> str:
        containers, _, fact = trait.rpartition(".")
        if fact == _UNION:
            return fact
        return f"deep.{fact}" if "." in containers or containers == "deep" else f"{container}.{trait}"

    return frozenset(outer(trait) for plain in plains for trait in plain.traits)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
