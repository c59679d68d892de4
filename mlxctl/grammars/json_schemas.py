"""JSON schemas as grammars, and the location of unsupported keywords."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mlxctl.errors import InvalidRequest
from mlxctl.grammars.errors import one_line

# One space, or a new line with indentation, as JSON is usually formatted: with more, models may generate
# white space without end.
_WHITESPACE = r"\x20|\x0A[\x20\x09]{0,32}"
# Locating an error compiles parts of the schema again.
_MAX_ATTEMPTS = 400
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
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
_COUNTS = ("minLength", "maxLength", "minItems", "maxItems", "minProperties", "maxProperties", "minContains",
           "maxContains")  # fmt: skip
_SINGLES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def checked_schema(schema: Any, *, param: str, is_strict: bool) -> Mapping[str, Any]:
    """Return the schema with llguidance's options.

    Keywords that cannot be enforced raise InvalidRequest if it `is_strict`, and are left to the model
    otherwise. So does a schema that is wrong or that no value matches.
    """
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{param} must be an object: a JSON schema", param=param)
    schema = without_no_ops(schema)
    if error_text := _schema_error(schema, is_strict):
        where = param + "".join(f".{step}" for step in _Search(schema, error_text, is_strict).path())
        raise InvalidRequest(
            f"{where} is not a schema that can be enforced: {one_line(error_text)}", param=where
        )
    return {**schema, "x-guidance": _options(is_strict)}


def without_no_ops(schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return an equal schema without keywords that constrain nothing.

    Counts such as 2.0 become integers.
    """
    kept = {
        key: int(value) if key in _COUNTS and isinstance(value, float) and value.is_integer() else value
        for key, value in schema.items()
    }
    for key, values in _NO_OPS:
        if any(kept.get(key) == value and type(kept[key]) is type(value) for value in values if key in kept):
            del kept[key]
    if "if" not in kept or not kept.keys() & {"then", "else"}:
        for key in ("if", "then", "else"):
            kept.pop(key, None)
    for key in _MAPS:
        if isinstance(named := kept.get(key), dict):
            kept[key] = {name: _simplified(part) for name, part in named.items()}
    for key in _LISTS:
        if isinstance(listed := kept.get(key), list):
            kept[key] = [_simplified(part) for part in listed]
    for key in _SINGLES:
        if key in kept:
            kept[key] = _simplified(kept[key])
    return kept


def _simplified(part: Any) -> Any:
    return without_no_ops(part) if isinstance(part, dict) else part


def _options(is_strict: bool) -> dict[str, Any]:
    return {"whitespace_pattern": _WHITESPACE, "lenient": not is_strict}


def _schema_error(schema: Mapping[str, Any], is_strict: bool) -> str:
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(
            json.dumps({**schema, "x-guidance": _options(is_strict)})
        )
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

    def path(self) -> list[str]:
        """Return the steps from the root, none for the whole schema."""
        steps: list[str] = []
        node: Mapping[str, Any] = self._schema
        while found := next(
            ((step, part) for step, part in _parts(node) if self._has_same_error(part)), None
        ):
            step, node = found
            steps.append(step)
        return steps

    def _has_same_error(self, part: Mapping[str, Any]) -> bool:
        self._num_attempts += 1
        if self._num_attempts > _MAX_ATTEMPTS:
            return False
        definitions = {key: self._schema[key] for key in ("$defs", "definitions") if key in self._schema}
        return _schema_error({**definitions, **part}, self._is_strict) == self._schema_error


def _parts(node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield the direct subschemas with their steps."""
    for key in _MAPS:
        if isinstance(named := node.get(key), dict):
            yield from ((f"{key}.{name}", part) for name, part in named.items() if isinstance(part, dict))
    for key in _LISTS:
        if isinstance(listed := node.get(key), list):
            yield from (
                (f"{key}[{index}]", part) for index, part in enumerate(listed) if isinstance(part, dict)
            )
    for key in _SINGLES:
        if isinstance(part := node.get(key), dict):
            yield key, part
