"""Converts arguments written as plain text to JSON by the tool's schema."""

import math
import re
from typing import Any

from mlxctl.formats.parsers.json_value import parse_json, quote
from mlxctl.formats.parsers.python_value import literal_as_json
from mlxctl.formats.parsers.schemas import STRING, Kinds
from mlxctl.ir.json_schemas import kind_of

_WORDS = {"true": "true", "false": "false", "none": "null", "null": "null"}
_LEADING_ZEROS = re.compile(r"(?P<sign>-?)\+?0*(?P<rest>\d{1,300}(?:\.\d{1,300})?)", re.ASCII)
_WHOLE = re.compile(r"-?\d{1,15}\.0+", re.ASCII)
_WORD_KINDS = {"true": "boolean", "false": "boolean", "null": "null"}


def value_as_json(text: str, kinds: Kinds) -> str:
    """Return the JSON text of a value that was written without quotes.

    A string stays unchanged. Where a string is one of several types, only exact JSON of another type is used
    as such; without a schema, any JSON is. Where a string is not allowed, Python literals are accepted, too.
    A value of no allowed type becomes a string, so that nothing is lost. Where only numbers are allowed, a
    whole one has no fraction: models write `5.0` for 5.
    """
    if kinds == STRING:
        return quote(text)
    bare = text.strip()
    try:
        value = parse_json(bare)
    except ValueError:
        return _odd_value(text, kinds)
    is_whole = isinstance(value, float) and _WHOLE.fullmatch(bare) is not None
    if _is_beyond_json(value):
        return quote(text)
    if is_whole and kinds and ("integer" in kinds or kinds & {"number", "string"} == {"number"}):
        return str(int(value))
    if kinds is None or kind_of(value) in kinds or (kind_of(value) == "integer" and "number" in kinds):
        return bare if kinds is not None or not isinstance(value, str) else quote(text)
    if isinstance(value, float) and value.is_integer() and "integer" in kinds:
        return str(int(value))
    return quote(text) if "string" in kinds else bare


def _odd_value(text: str, kinds: Kinds) -> str:
    """Return the JSON text of a value that is not JSON."""
    if kinds is None or "string" in kinds:
        return quote(text)
    bare = text.strip()
    word = _WORDS.get(bare.lower())
    if word is not None and _WORD_KINDS[word] in kinds:
        return word
    if kinds & {"integer", "number"} and (number := _LEADING_ZEROS.fullmatch(bare)):
        return f"{number['sign']}{number['rest']}"
    if kinds & {"object", "array"}:
        for converted in (literal_as_json(bare), _unescaped(bare)):
            if converted is not None and converted[:1] in "{[":
                return converted
    return quote(text)


def _unescaped(text: str) -> str | None:
    """Return JSON that was escaped as if it were in a string."""
    try:
        inner = parse_json(f'"{text}"')
        parse_json(inner)
    except ValueError:
        return None
    return str(inner)


def _is_beyond_json(value: Any) -> bool:
    """Whether a number is infinite or NaN."""
    return isinstance(value, float) and not math.isfinite(value)
