"""JSON schemas as grammars: which of their keywords can be enforced, and where one stands that cannot."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from mlxctl.errors import InvalidRequest
from mlxctl.grammars.errors import one_line

# One space, or a new line with indentation, as JSON is usually formatted: with more, models may generate
# white space without end.
_WHITESPACE = r"\x20|\x0A[\x20\x09]{0,32}"
# Locating an error compiles parts of the schema again.
_MAX_TRIALS = 400
_LISTS = ("anyOf", "oneOf", "allOf", "prefixItems")
_MAPS = ("properties", "patternProperties", "$defs", "definitions")
_SINGLES = ("items", "additionalProperties", "not", "if", "then", "else", "contains", "propertyNames")


def checked_schema(schema: Any, *, param: str, is_strict: bool) -> Mapping[str, Any]:
    """Return the schema with our options in it.

    Raises InvalidRequest when it is wrong, or nothing could ever fit it.

    Keywords that cannot be enforced are refused if it `is_strict`, and left to the model otherwise.
    """
    if not isinstance(schema, dict):
        raise InvalidRequest(f"{param} must be an object: a JSON schema", param=param)
    if complaint := _complaint(schema, is_strict):
        where = param + "".join(f".{step}" for step in _Search(schema, complaint, is_strict).path())
        raise InvalidRequest(
            f"{where} is not a schema that can be enforced: {one_line(complaint)}", param=where
        )
    return {**schema, "x-guidance": _options(is_strict)}


def _options(is_strict: bool) -> dict[str, Any]:
    return {"whitespace_pattern": _WHITESPACE, "lenient": not is_strict}


def _complaint(schema: Mapping[str, Any], is_strict: bool) -> str:
    from llguidance import LLMatcher

    try:
        grammar = LLMatcher.grammar_from_json_schema(
            json.dumps({**schema, "x-guidance": _options(is_strict)})
        )
    except ValueError as error:
        return str(error)
    return LLMatcher.validate_grammar(grammar)


class _Search:
    """Looks for the smallest part of a schema that is complained about in the same words."""

    def __init__(self, schema: Mapping[str, Any], complaint: str, is_strict: bool) -> None:
        self._schema = schema
        self._complaint = complaint
        self._is_strict = is_strict
        self._num_trials = 0

    def path(self) -> list[str]:
        """Return the steps to it from the root, none when it is the schema as a whole."""
        steps: list[str] = []
        node: Mapping[str, Any] = self._schema
        while found := next(((step, part) for step, part in _parts(node) if self._is_to_blame(part)), None):
            step, node = found
            steps.append(step)
        return steps

    def _is_to_blame(self, part: Mapping[str, Any]) -> bool:
        self._num_trials += 1
        if self._num_trials > _MAX_TRIALS:
            return False
        definitions = {key: self._schema[key] for key in ("$defs", "definitions") if key in self._schema}
        return _complaint({**definitions, **part}, self._is_strict) == self._complaint


def _parts(node: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The schemas right below a schema, with how to get there."""
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
