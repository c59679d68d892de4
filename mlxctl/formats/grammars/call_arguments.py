"""The grammar of a call's arguments in a format's notation.

It accepts what the tool's schema allows and the format's parser reads back. Arguments come in the order of
the schema. Additional ones may follow in JSON unless the schema forbids them; in other notations only where
the schema asks for them, or names none. A tool without a schema takes an empty object.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from mlxctl.formats.grammars.compilation import compile_constraint
from mlxctl.formats.grammars.composition import Definition
from mlxctl.formats.grammars.errors import UnsupportedSchema
from mlxctl.formats.grammars.json_schemas import prepared_schema
from mlxctl.formats.grammars.literals import LarkLiterals
from mlxctl.formats.grammars.rule_book import RuleBook
from mlxctl.formats.grammars.schema_branches import Schema, SchemaBranches
from mlxctl.formats.grammars.tagged_values import TaggedValues, value_ends
from mlxctl.formats.grammars.text_patterns import JSON_STRING, PYTHON_STRING, Quoting, literally
from mlxctl.formats.grammars.value_rules import JSON, Keys, ValueNotation, ValueRules
from mlxctl.ir import BraceNotation, Constraint, JsonNotation, Notation, PythonNotation, TagNotation, ToolSpec
from mlxctl.ir.errors import InvalidRequest

_NO_PARAMETERS: Mapping[str, Any] = {"properties": {}}
_NAME = "[A-Za-z_][A-Za-z0-9_]*"
_KEYWORDS = Keys(bare=_NAME, quoting=None, colon="=")
_PYTHON = replace(
    JSON,
    quotings=(JSON_STRING, PYTHON_STRING),
    words={"true": ("True", "true"), "false": ("False", "false"), "null": ("None", "null")},
)


def call_arguments(tool: ToolSpec, notation: Notation, literals: LarkLiterals) -> Definition:
    """Return the grammar of a tool's arguments.

    Raises InvalidRequest for a schema that is wrong or cannot be enforced.
    """
    if tool.text_pattern:
        compile_constraint(Constraint(kind="regex", value=tool.text_pattern, param=tool.param))
    schema = {"type": "object", **(tool.parameters or _NO_PARAMETERS)}
    as_json = compile_constraint(
        Constraint(kind="json_schema", value=schema, param=tool.param, is_strict=tool.is_strict)
    )
    if isinstance(notation, JsonNotation):
        return as_json
    schema = prepared_schema(schema, param=tool.param, is_strict=tool.is_strict)
    book, branches = RuleBook(literals), SchemaBranches(schema)
    try:
        objects = [_expression(branch, notation, book, branches, tool) for branch in branches.of(schema)]
        return {"lark_grammar": book.source(book.one_of(objects))}
    except UnsupportedSchema as error:
        raise InvalidRequest(
            f"{tool.param} is not a schema that can be enforced: {error}", param=tool.param
        ) from error


def _expression(
    branch: Schema,
    notation: TagNotation | BraceNotation | PythonNotation,
    book: RuleBook,
    branches: SchemaBranches,
    tool: ToolSpec,
) -> str:
    """Return the arguments of a call that match one branch."""

    def values(writing: ValueNotation) -> ValueRules:
        return ValueRules(book, branches, writing, is_strict=tool.is_strict)

    match notation:
        case TagNotation():
            never = *value_ends(notation, None), *([literally(notation.mark)] if notation.mark else ())
            return TaggedValues(
                book, branches, values(_json_without(never)), notation, is_strict=tool.is_strict
            ).of(branch)
        case BraceNotation(mark=mark):
            return values(writing := _in_braces(mark)).inside(branch, writing.keys)
        case PythonNotation():
            return values(_PYTHON).inside(branch, _KEYWORDS)


def _json_without(patterns: tuple[str, ...]) -> ValueNotation:
    """Return a JSON notation in whose strings none of the patterns occurs."""
    quoting = replace(JSON_STRING, excluded=patterns)
    return replace(JSON, quotings=(quoting,), keys=replace(JSON.keys, quoting=quoting))


def _in_braces(mark: str) -> ValueNotation:
    # The parser takes a mark for a string's end only where the call goes on or ends behind it.
    quoting = Quoting(left=mark, right=mark, excluded=(rf"{literally(mark)}\s*[,}}\]<]",))
    return ValueNotation(
        quotings=(quoting,),
        words=JSON.words,
        keys=Keys(bare=_NAME, quoting=quoting, colon=":"),
        separator=",",
        braces=(r"\{", r"\}"),
        brackets=(r"\[", r"\]"),
    )
