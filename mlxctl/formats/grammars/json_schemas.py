"""JSON schemas for llguidance, and the location of their errors."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mlxctl.formats.grammars.errors import one_line
from mlxctl.formats.grammars.references import with_pointers
from mlxctl.formats.grammars.schema_parts import changed, direct_parts, path_text
from mlxctl.ir.errors import InvalidRequest
from mlxctl.ir.json_schemas import SchemaKeys

# One space, or a new line with indentation, as JSON is usually formatted: with more, models may generate
# white space without end, and spaces among tabs are no indentation.
_WHITESPACE = r"\x20|\x0A(\x20{0,32}|\x09{0,16})"
# Locating an error compiles parts of the schema again.
_MAX_ATTEMPTS = 400
# No answer has so many characters, items or members.
_LONGEST = 1 << 24
# Keywords with a value that constrains nothing.
_NO_OPS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("unevaluatedProperties", (True,)),
    ("unevaluatedItems", (True,)),
    ("uniqueItems", (False,)),
    ("propertyNames", (True, {})),
    ("not", (False,)),
    ("dependentRequired", ({},)),
    ("dependentSchemas", ({},)),
    ("dependencies", ({},)),
    ("patternProperties", ({},)),
    ("minProperties", (0,)),
)
_LEAST = ("minLength", "minItems", "minProperties", "minContains")
_MOST = ("maxLength", "maxItems", "maxProperties", "maxContains")


def prepared_schema(schema: Any, *, param: str, is_strict: bool) -> dict[str, Any]:
    """Return an equal schema in a form that llguidance can read.

    References are pointers, and keywords that constrain nothing are left out.
    Without `is_strict` it also lacks patterns that cannot be enforced and lengths that no answer reaches; the
    latter raise InvalidRequest otherwise.
    """
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{param} must be an object: a JSON schema", param=param)

    def simplified(node: dict[str, Any], keys: SchemaKeys) -> dict[str, Any]:
        node = _without_no_ops(node)
        for key in _LEAST:
            if is_strict and _is_too_long(node.get(key)):
                where = param + path_text(keys)
                raise InvalidRequest(
                    f"{where} has {key} {node[key]}; no answer can be so long, at most {_LONGEST} can be "
                    "asked for",
                    param=where,
                )
        node = {key: value for key, value in node.items() if not (key in _LEAST and _is_too_long(value))}
        return node if is_strict else _without_bad_patterns(node)

    return changed(with_pointers(schema), simplified)


def check_schema(schema: Mapping[str, Any], *, param: str, is_strict: bool) -> None:
    """Raise InvalidRequest for a schema that cannot be enforced.

    It is wrong, or no value matches it; the error has the path. Keywords that cannot be enforced raise only
    if it `is_strict`.
    """
    if error_text := _schema_error(schema, is_strict):
        where = param + _Search(schema, error_text, is_strict).path()
        raise InvalidRequest(
            f"{where} is not a schema that can be enforced: {one_line(error_text)}", param=where
        )


def with_options(schema: Mapping[str, Any], *, is_strict: bool) -> dict[str, Any]:
    """Return the schema with llguidance's options."""
    return {**schema, "x-guidance": {"whitespace_pattern": _WHITESPACE, "lenient": not is_strict}}


def _without_no_ops(node: dict[str, Any]) -> dict[str, Any]:
    """Return an equal node without keywords that constrain nothing.

    Counts such as 2.0 become integers.
    """
    kept = {
        key: int(value)
        if key in _LEAST + _MOST and isinstance(value, float) and value.is_integer()
        else value
        for key, value in node.items()
        if not (key in _MOST and _is_too_long(value))
    }
    for key, values in _NO_OPS:
        if any(kept.get(key) == value and type(kept[key]) is type(value) for value in values if key in kept):
            del kept[key]
    if "if" not in kept or not kept.keys() & {"then", "else"}:
        for key in ("if", "then", "else"):
            kept.pop(key, None)
    return kept


def _is_too_long(count: Any) -> bool:
    return isinstance(count, int | float) and count > _LONGEST


def _without_bad_patterns(node: dict[str, Any]) -> dict[str, Any]:
    if isinstance(pattern := node.get("pattern"), str) and _pattern_error(pattern):
        node = {key: value for key, value in node.items() if key != "pattern"}
    if isinstance(named := node.get("patternProperties"), dict):
        node["patternProperties"] = {
            pattern: part for pattern, part in named.items() if not _pattern_error(pattern)
        }
    return node


@lru_cache(maxsize=1024)
def _pattern_error(pattern: str) -> str:
    return _schema_error({"type": "string", "pattern": pattern}, is_strict=False)


def _schema_error(schema: Mapping[str, Any], is_strict: bool) -> str:
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(json.dumps(with_options(schema, is_strict=is_strict)))
    except ValueError as error:
        return str(error)
    return LLMatcher.validate_grammar(grammar)


class _Search:
    """Finds the smallest part of a schema with the same error."""

    def __init__(self, schema: Mapping[str, Any], error_text: str, is_strict: bool) -> None:
        self._schema = schema
        self._schema_error = error_text
        self._is_strict = is_strict
        self._num_attempts = 0

    def path(self) -> str:
        """Return the path from the root, "" for the whole schema."""
        keys: SchemaKeys = ()
        node: Mapping[str, Any] = self._schema
        while found := next(
            (
                (step, part)
                for step, part in direct_parts(node)
                if isinstance(part, dict) and self._has_same_error(part)
            ),
            None,
        ):
            keys, node = keys + found[0], found[1]
        return path_text(keys)

    def _has_same_error(self, part: Mapping[str, Any]) -> bool:
        self._num_attempts += 1
        if self._num_attempts > _MAX_ATTEMPTS:
            return False
        definitions = {key: self._schema[key] for key in ("$defs", "definitions") if key in self._schema}
        return _schema_error({**definitions, **part}, self._is_strict) == self._schema_error
