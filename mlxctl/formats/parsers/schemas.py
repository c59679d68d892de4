"""Names and JSON types of arguments, from the tools' schemas."""

from collections.abc import Mapping, Sequence
from typing import Any

from mlxctl.ir import ToolSpec
from mlxctl.ir.json_schemas import kind_of, target

Kinds = frozenset[str] | None
"""The JSON types that an argument may have; None when nothing is known about them."""

STRING: Kinds = frozenset({"string"})
_MAX_DEPTH = 8
_STRUCTURE = {"properties", "additionalProperties", "items", "$ref"}


class SchemaNode:
    """The schema of an argument or a part of one.

    `kinds` are the JSON types that the value may have. An empty node has no constraints.
    """

    __slots__ = ("_depth", "_root", "_schema", "kinds")

    def __init__(
        self, schema: Any = None, root: Mapping[str, Any] | None = None, *, depth: int = _MAX_DEPTH
    ) -> None:
        self._root = root or {}
        self._depth = depth
        self._schema = _resolved(schema, self._root)
        self.kinds = _kinds(schema, self._root, _MAX_DEPTH)

    def narrowed(self, kinds: Kinds) -> "SchemaNode":
        """Return the same schema with other types."""
        node = SchemaNode(self._schema, self._root, depth=self._depth)
        node.kinds = kinds or None
        return node

    def member(self, name: str) -> "SchemaNode":
        """Return the schema of an object's member."""
        properties, others = self._schema.get("properties"), self._schema.get("additionalProperties")
        known = properties.get(name) if isinstance(properties, Mapping) else None
        return self._inner(others if known is None else known)

    def item(self) -> "SchemaNode":
        """Return the schema of an array's items."""
        return self._inner(self._schema.get("items"))

    def _inner(self, schema: Any) -> "SchemaNode":
        return SchemaNode(schema, self._root, depth=self._depth - 1) if self._depth > 0 else SchemaNode()


class ToolSchemas:
    """The tools of one request.

    Schemas come from the client; malformed parts count as unconstrained.
    """

    def __init__(self, tools: Sequence[ToolSpec] = ()) -> None:
        self._parameters: dict[str, Mapping[str, Any]] = {tool.name: tool.parameters for tool in tools}

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the available tools."""
        return tuple(self._parameters)

    def has_tool(self, name: str) -> bool:
        """Whether the tool exists; true for any name without tools."""
        return not self._parameters or name in self._parameters

    def is_available(self, name: str) -> bool:
        """Whether the tool is one of the request's; false without tools."""
        return name in self._parameters

    def resolve(self, name: str) -> str:
        """Return the tool's name without a namespace or method around it.

        Models add them: `functions.f`, `f.call`, `f.f`.
        """
        if name in self._parameters:
            return name
        space, _, last = name.rpartition(".")
        candidates = (name.removesuffix(".call"), last)
        known = next((candidate for candidate in candidates if candidate in self._parameters), name)
        return last if self._parameters and known == name and space == last else known

    def only_tool(self, argument: str | None = None) -> str | None:
        """Return the name of the only tool, None if there are several.

        With an `argument`, only tools that have it count.
        """
        names = [
            name for name in self._parameters if argument is None or argument in self.argument_names(name)
        ]
        return names[0] if len(names) == 1 else None

    def kinds(self, tool: str, argument: str) -> Kinds:
        """Return the types that the tool's argument may have."""
        return self.schema(tool, argument).kinds

    def schema(self, tool: str, argument: str) -> SchemaNode:
        """Return the schema of the tool's argument."""
        parameters = self._parameters.get(tool, {})
        properties = parameters.get("properties")
        return SchemaNode(properties.get(argument) if isinstance(properties, Mapping) else None, parameters)

    def argument_names(self, tool: str) -> tuple[str, ...]:
        """Return the tool's arguments in the order of its schema."""
        properties = self._parameters.get(tool, {}).get("properties")
        return tuple(properties) if isinstance(properties, Mapping) else ()


def _kinds(schema: Any, root: Mapping[str, Any], depth: int) -> Kinds:
    if not isinstance(schema, Mapping) or depth == 0:
        return None
    if isinstance(reference := schema.get("$ref"), str):
        return _kinds(target(root, reference), root, depth - 1)
    kinds = _own_kinds(schema)
    for key in ("anyOf", "oneOf"):
        if isinstance(choices := schema.get(key), list) and choices:
            kinds = _both(kinds, _any_of([_kinds(choice, root, depth - 1) for choice in choices]))
    if isinstance(parts := schema.get("allOf"), list):
        for part in parts:
            kinds = _both(kinds, _kinds(part, root, depth - 1))
    return kinds | {"null"} if kinds is not None and schema.get("nullable") is True else kinds


def _resolved(schema: Any, root: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the schema after following references; empty if there is none.

    Of several choices, the first with a structure.
    """
    for _ in range(_MAX_DEPTH):
        if not isinstance(schema, Mapping):
            return {}
        if isinstance(reference := schema.get("$ref"), str):
            schema = target(root, reference)
        elif isinstance(choices := schema.get("anyOf") or schema.get("oneOf"), list):
            structured = (
                choice for choice in choices if isinstance(choice, Mapping) and choice.keys() & _STRUCTURE
            )
            schema = next(structured, {})
        else:
            return schema
    return {}


def _own_kinds(schema: Mapping[str, Any]) -> Kinds:
    declared = schema.get("type")
    if isinstance(declared, str):
        return frozenset({declared})
    if isinstance(declared, list) and declared:
        return frozenset(kind for kind in declared if isinstance(kind, str))
    if isinstance(values := schema.get("enum"), list) and values:
        return frozenset(map(kind_of, values))
    if "const" in schema:
        return frozenset({kind_of(schema["const"])})
    return None


def _any_of(choices: Sequence[Kinds]) -> Kinds:
    known = [kinds for kinds in choices if kinds is not None]
    return frozenset().union(*known) if len(known) == len(choices) else None


def _both(first: Kinds, second: Kinds) -> Kinds:
    if first is None or second is None:
        return second if first is None else first
    return first & second or first
