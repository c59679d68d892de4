"""Compiles the constraints of requests to checked grammars.

Errors are InvalidRequest with the reason and the field.

PERF: llguidance is imported when it is first needed, not when the server starts.
"""

import json
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Any

from mlxctl.formats.grammars.closed_objects import with_closed_objects
from mlxctl.formats.grammars.composition import Definition
from mlxctl.formats.grammars.errors import one_line
from mlxctl.formats.grammars.exact_json import json_definition
from mlxctl.ir import Constraint, ConstraintKind
from mlxctl.ir.errors import InvalidRequest

MAX_GRAMMAR_BYTES = 128 * 1024
"""Maximum size of one grammar or schema as text."""


def compile_constraint(constraint: Constraint) -> Definition:
    """Return the grammar of a constraint.

    Raises InvalidRequest, also for one of more than MAX_GRAMMAR_BYTES.
    """
    source = json.dumps(constraint.value, ensure_ascii=False)
    if (num_bytes := len(source.encode(errors="replace"))) > MAX_GRAMMAR_BYTES:
        message = (
            f"{constraint.param} has {num_bytes} bytes; a schema or grammar may have {MAX_GRAMMAR_BYTES}"
        )
        raise InvalidRequest(message, param=constraint.param)
    return _compile(constraint.kind, source, constraint.param, constraint.is_strict)


@lru_cache(maxsize=64)
def _compile(kind: ConstraintKind, source: str, param: str, is_strict: bool) -> Definition:
    """Compile; cached, since agents send the same tools with every turn."""
    from llguidance import LLMatcher

    value = json.loads(source)
    if kind == "json_schema" and isinstance(value, dict):
        value = with_closed_objects(value)
    match kind:
        case "json_object" | "json_schema":
            return json_definition(value, param=param, is_strict=is_strict)
        case "regex":
            return _checked(
                _lark_of(LLMatcher.grammar_from_regex(value)),
                "is not a regular expression to be enforced",
                param,
            )
        case "choice":
            return _checked(_one_of(value), "cannot be enforced", param)
        case "grammar":
            return _checked(_as_lark(value, param), "is not a Lark grammar that can be enforced", param)


def _lark_of(grammar: str) -> str:
    lark: str = json.loads(grammar)["grammars"][0]["lark_grammar"]
    return lark


def _one_of(choices: Sequence[str]) -> str:
    return "start: " + " | ".join(map(json.dumps, choices))


def _as_lark(text: str, param: str) -> str:
    """Return a Lark grammar unchanged; translate a GBNF one."""
    if "::=" not in text:
        return text
    from llguidance.gbnf_to_lark import any_to_lark

    try:
        lark: str = any_to_lark(text)
    except Exception as error:  # the translator raises any exception for malformed text
        raise InvalidRequest(
            f"{param} is not a GBNF grammar that can be read: {one_line(str(error))}", param=param
        ) from error
    return lark


def _checked(lark: str, error_text: str, param: str) -> Mapping[str, Any]:
    from llguidance import LLMatcher

    if error := LLMatcher.validate_grammar(LLMatcher.grammar_from_lark(lark)):
        raise InvalidRequest(f"{param} {error_text}: {one_line(error)}", param=param)
    return {"lark_grammar": lark}
