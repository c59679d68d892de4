"""Structured output fields that protocols share.

Besides OpenAI's response_format: vLLM's `structured_outputs`, its older `guided_*`, llama.cpp's `grammar`,
and SGLang's `regex` and `ebnf`. A request may set one of them, or several to the same value.
"""

from collections.abc import Iterator
from typing import Annotated, Any

import msgspec
from msgspec import Meta, Struct

from mlxctl.ir import Constraint
from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.decoding import check_nesting
from mlxctl.protocols.sampling_fields import SamplingFields

Choices = Annotated[list[Annotated[str, Meta(min_length=1)]], Meta(min_length=1, max_length=1024)]
Source = Annotated[str, Meta(min_length=1)]

_ANY_OBJECT = {"type": "object"}


class StructuredOutputs(Struct, kw_only=True):
    """vLLM's structured output options."""

    json: str | dict[str, Any] | None = None
    regex: Source | None = None
    choice: Choices | None = None
    grammar: Source | None = None
    json_object: bool | None = None
    structural_tag: Any = None


class StructuredOutputFields(SamplingFields, kw_only=True):
    """Base of bodies with structured output and sampling fields."""

    structured_outputs: StructuredOutputs | None = None
    guided_json: str | dict[str, Any] | None = None
    guided_regex: Source | None = None
    guided_choice: Choices | None = None
    guided_grammar: Source | None = None
    grammar: Source | None = None
    regex: Source | None = None
    ebnf: Source | None = None


def object_constraint(param: str) -> Constraint:
    """Return the constraint to any JSON object."""
    return Constraint(kind="json_object", value=_ANY_OBJECT, param=param)


def schema_constraint(schema: dict[str, Any] | None, *, param: str, is_strict: bool) -> Constraint:
    """Return the constraint to a JSON schema, to any object without one.

    Raises InvalidRequest.
    """
    check_nesting(schema, param)
    value = _ANY_OBJECT if schema is None else schema
    return Constraint(kind="json_schema", value=value, param=param, is_strict=is_strict)


def json_schema_constraint(schema: dict[str, Any] | None) -> Constraint | None:
    """Return the constraint of llama.cpp's field `json_schema`, if it is given."""
    return None if schema is None else schema_constraint(schema, param="json_schema", is_strict=False)


def requested_constraint(fields: StructuredOutputFields, *others: Constraint | None) -> Constraint | None:
    """Return the requested constraint, if any.

    `others` are those of the protocol's own fields. Raises InvalidRequest for different ones.
    """
    given = [*filter(None, others), *_constraints(fields)]
    # Clients of several versions of vLLM send one constraint under both names.
    others_than_first = [
        each for each in given[1:] if (each.kind, each.value) != (given[0].kind, given[0].value)
    ]
    if others_than_first:
        first, second = given[0].param, others_than_first[0].param
        raise InvalidRequest(
            f"{first} and {second} both constrain the answer; send one of them", param=second
        )
    return given[0] if given else None


def _constraints(fields: StructuredOutputFields) -> Iterator[Constraint]:
    yield from _guided(
        fields.guided_json, fields.guided_regex, fields.guided_choice, fields.guided_grammar, prefix="guided_"
    )
    if fields.regex is not None:
        yield Constraint(kind="regex", value=fields.regex, param="regex")
    for param in ("grammar", "ebnf"):
        if (grammar := getattr(fields, param)) is not None:
            yield Constraint(kind="grammar", value=grammar, param=param)
    if (requested := fields.structured_outputs) is not None:
        if requested.structural_tag is not None:
            param = "structured_outputs.structural_tag"
            raise InvalidRequest(f"{param} is not supported; use json, regex, choice or grammar", param=param)
        yield from _guided(
            requested.json, requested.regex, requested.choice, requested.grammar, prefix="structured_outputs."
        )
        if requested.json_object:
            yield object_constraint("structured_outputs.json_object")


def _guided(
    schema: str | dict[str, Any] | None,
    regex: str | None,
    choice: list[str] | None,
    grammar: str | None,
    *,
    prefix: str,
) -> Iterator[Constraint]:
    if schema is not None:
        yield schema_constraint(_read_schema(schema, f"{prefix}json"), param=f"{prefix}json", is_strict=True)
    if regex is not None:
        yield Constraint(kind="regex", value=regex, param=f"{prefix}regex")
    if choice is not None:
        yield Constraint(kind="choice", value=tuple(choice), param=f"{prefix}choice")
    if grammar is not None:
        yield Constraint(kind="grammar", value=grammar, param=f"{prefix}grammar")


def _read_schema(schema: str | dict[str, Any], param: str) -> dict[str, Any]:
    """Return a schema that may have been sent as text."""
    if isinstance(schema, dict):
        return schema
    try:
        return msgspec.json.decode(schema, type=dict[str, Any])
    except (msgspec.DecodeError, RecursionError, UnicodeError) as error:
        raise InvalidRequest(
            f"{param} is a string that is not a JSON schema: {error}", param=param
        ) from error
