"""Grammars of JSON schemas with exact numbers.

llguidance's own JSON rounds numbers to 64-bit floats. Only the parts of a schema that lead to larger ones get
rules of their own; llguidance's JSON stands for all others.
"""

import json
from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from mlxctl.formats.grammars.composition import Definition
from mlxctl.formats.grammars.errors import UnsupportedSchema
from mlxctl.formats.grammars.json_schemas import prepared_schema, unsupported_part, with_options
from mlxctl.formats.grammars.literals import LarkLiterals
from mlxctl.formats.grammars.number_ranges import EXACT_INTEGER, needs_pattern
from mlxctl.formats.grammars.rule_book import RuleBook
from mlxctl.formats.grammars.schema_branches import (
    LIMITS,
    SchemaBranches,
    kinds_of,
    limits_of,
    wants_integers,
)
from mlxctl.formats.grammars.schema_parts import changed, direct_parts
from mlxctl.formats.grammars.value_rules import JSON, ValueRules
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.json_schemas import SchemaKeys, target

_DEFINITIONS = ("$defs", "definitions")
# Each needs another compilation.
_MAX_UNSUPPORTED = 16


def json_definition(schema: Any, *, param: str, is_strict: bool) -> Definition:
    """Return the grammar of a JSON schema.

    Keywords that cannot be enforced raise InvalidRequest if it `is_strict`, and are left to the model
    otherwise. So does a schema that is wrong or that no value matches.
    """
    schema = prepared_schema(schema, param=param, is_strict=is_strict)
    schema = _supported(schema, param=param, is_strict=is_strict)
    book, branches = RuleBook(LarkLiterals(())), SchemaBranches(schema)
    rules = _ExactRules(book, branches, schema, is_strict=is_strict)
    if not rules.is_exact(schema):
        return {"json_schema": with_options(schema, is_strict=is_strict)}
    try:
        return {"lark_grammar": book.source(rules.value(schema))}
    except UnsupportedSchema as error:
        if is_strict:
            raise InvalidRequest(
                f"{param} is not a schema that can be enforced exactly: {error}", param=param
            ) from error
        return {"json_schema": with_options(changed(schema, _without_numbers), is_strict=is_strict)}


def _supported(schema: dict[str, Any], *, param: str, is_strict: bool) -> dict[str, Any]:
    """Return the schema with only types where parts cannot be enforced.

    Raises InvalidRequest.
    """
    for _ in range(_MAX_UNSUPPORTED):
        other = changed(schema, _with_other_numbers)
        if (found := unsupported_part(other, param=param, is_strict=is_strict)) is None:
            return schema
        schema = changed(schema, partial(_only_type, found))
    raise InvalidRequest(
        f"{param} has more than {_MAX_UNSUPPORTED} parts that cannot be enforced", param=param
    )


def _only_type(keys: SchemaKeys, node: dict[str, Any], at: SchemaKeys) -> dict[str, Any]:
    """Return the part at `keys` with its type alone."""
    return {key: node[key] for key in ("type", *_DEFINITIONS) if key in node} if at == keys else node


class _ExactRules(ValueRules):
    """Rules for the parts of one schema with numbers that llguidance rounds."""

    def __init__(
        self, book: RuleBook, branches: SchemaBranches, root: Mapping[str, Any], *, is_strict: bool
    ) -> None:
        super().__init__(book, branches, JSON, is_strict=is_strict)
        self._root = root
        self._definitions = {key: root[key] for key in _DEFINITIONS if key in root}
        # Keywords that a draft does not know have no effect.
        self._draft = {"$schema": root["$schema"]} if "$schema" in root else {}

    def value(self, schema: Any) -> str:
        """Return the name of the rule for values that match a schema."""
        if isinstance(schema, dict) and self.is_exact(schema):
            return super().value(schema)
        if isinstance(schema, bool):
            return super().value(schema) if not schema else self._json({})
        return self._json(schema)

    def is_exact(self, schema: Mapping[str, Any]) -> bool:
        """Whether a schema needs rules of its own."""
        return any(
            _has_exact_numbers(part)
            or not str(part.get("$ref", "#/$defs/")).startswith(tuple(f"#/{key}/" for key in _DEFINITIONS))
            for part in self._reached(schema)
        )

    def _reached(self, schema: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Yield the schema and all that it consists of, each once."""
        seen: set[int] = set()
        waiting = [schema]
        while waiting:
            part = waiting.pop()
            if id(part) in seen:
                continue
            seen.add(id(part))
            yield part
            children = [child for keys, child in direct_parts(part) if keys[0] not in _DEFINITIONS]
            if isinstance(reference := part.get("$ref"), str):
                children.append(target(self._root, reference))
            waiting += [child for child in children if isinstance(child, dict)]

    def _can_fit(self, schema: Any) -> bool:
        return super()._can_fit(schema) if isinstance(schema, bool) or self.is_exact(schema) else True

    def _json(self, schema: Mapping[str, Any]) -> str:
        definitions = self._definitions if "$ref" in json.dumps(schema) else {}
        whole = with_options({**self._draft, **definitions, **schema}, is_strict=self._is_strict)
        text = f"%json {json.dumps(whole)}"
        return self._book.rule(text, lambda: text)


def _has_exact_numbers(node: Mapping[str, Any]) -> bool:
    return _is_listed(node) or _has_exact_limits(node)


def _is_listed(node: Mapping[str, Any]) -> bool:
    return any(_has_large(node[key]) for key in ("const", "enum") if key in node)


def _has_exact_limits(node: Mapping[str, Any]) -> bool:
    limits = limits_of(node)
    return (
        bool(limits) and "number" in kinds_of(node) and needs_pattern(limits, is_integer=wants_integers(node))
    )


def _has_large(value: Any) -> bool:
    """Whether a value contains a number beyond exact 64-bit floats."""
    if isinstance(value, list):
        return any(map(_has_large, value))
    if isinstance(value, dict):
        return any(map(_has_large, value.values()))
    return isinstance(value, int | float) and not -EXACT_INTEGER <= value <= EXACT_INTEGER


def _with_other_numbers(node: dict[str, Any], _: SchemaKeys) -> dict[str, Any]:
    """Return a node with numbers that llguidance does not round.

    Only for finding errors in the rest of the schema.
    """
    if _has_exact_limits(node):
        node = {key: value for key, value in node.items() if key not in LIMITS}
    if "const" in node:
        node["const"] = _other(node["const"])
    if isinstance(listed := node.get("enum"), list):
        node["enum"] = [_other(value) for value in listed]
    return node


def _other(value: Any) -> Any:
    """Return a value with small numbers in place of large ones."""
    if isinstance(value, list):
        return [_other(item) for item in value]
    if isinstance(value, dict):
        return {name: _other(item) for name, item in value.items()}
    return int(value) % EXACT_INTEGER if _has_large(value) else value


def _without_numbers(node: dict[str, Any], _: SchemaKeys) -> dict[str, Any]:
    dropped = [*(("const", "enum") if _is_listed(node) else ()), *(LIMITS if _has_exact_limits(node) else ())]
    return {key: value for key, value in node.items() if key not in dropped}
