"""JSON schemas for llguidance, and the location of their errors."""

import json
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from mlxctl.formats.grammars.disjoint_branches import has_disjoint_branches
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
# JSON Schema 2020-12, validation, 7.3. Other formats are annotations.
_FORMATS = frozenset({
    "date", "date-time", "duration", "email", "hostname", "idn-email", "idn-hostname", "ipv4", "ipv6", "iri",
    "iri-reference", "json-pointer", "regex", "relative-json-pointer", "time", "uri", "uri-reference",
    "uri-template", "uuid",
})  # fmt: skip
# What llguidance says of keywords that it cannot enforce together, although it knows each.
_UNSUPPORTED_TOGETHER = (
    "circular references with sibling keys",
    "are not disjoint",
    "Unable to determine if regex is empty",
    "intersection stack level exceeded",
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

    root = with_pointers(schema)

    def simplified(node: dict[str, Any], keys: SchemaKeys) -> dict[str, Any]:
        node = _without_no_ops(node)
        if isinstance(node.get("oneOf"), list) and "anyOf" not in node and has_disjoint_branches(node, root):
            node["anyOf"] = node.pop("oneOf")
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

    return changed(root, simplified)


def unsupported_part(schema: Mapping[str, Any], *, param: str, is_strict: bool) -> SchemaKeys | None:
    """Return the keys of a part that cannot be enforced.

    None if all can. Raises InvalidRequest with the path for such a part if it `is_strict`, for a schema that
    is wrong, and for one that no value matches.
    """
    error_text = _schema_error(schema, is_strict)
    if not error_text:
        return None
    keys = _Search(schema, error_text, is_strict).keys()
    if not is_strict and any(each in error_text for each in _UNSUPPORTED_TOGETHER):
        return keys
    where = param + path_text(keys)
    raise InvalidRequest(f"{where} is not a schema that can be enforced: {one_line(error_text)}", param=where)


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
    if isinstance(name := kept.get("format"), str) and name not in _FORMATS:
        del kept["format"]
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

    def keys(self) -> SchemaKeys:
        """Return the keys from the root, none for the whole schema."""
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
        return keys

    def _has_same_error(self, part: Mapping[str, Any]) -> bool:
        self._num_attempts += 1
        if self._num_attempts > _MAX_ATTEMPTS:
            return False
        kept = {key: self._schema[key] for key in ("$schema", "$defs", "definitions") if key in self._schema}
        return _schema_error({**kept, **part}, self._is_strict) == self._schema_error
