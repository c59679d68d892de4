"""Integral floats (16.0, 1e9) where a schema has an integer.

JSON knows one kind of number, and encoders of some languages write every number as a float.
"""

import re
from typing import Any

import msgspec

from mlxctl.protocols.validation_errors import STEP, value_at

_MAX_REPLACEMENTS = 32
_MAX_DECODED_BYTES = 32 << 20

_ANY = msgspec.json.Decoder(Any)
_COMPLAINT = re.compile(r"Expected `(?P<types>[^`]+)`, got `float` - at `\$(?P<path>.*)`", re.DOTALL)
_LAST_STEP = re.compile(rf"(?P<parent>.*)(?:{STEP.pattern})", re.DOTALL)


def max_replacements(num_bytes: int) -> int:
    """Return how many floats of a body are replaced.

    Each takes one more decoding.
    """
    return min(_MAX_REPLACEMENTS, max(1, _MAX_DECODED_BYTES // num_bytes))


def with_integers(text: bytes | msgspec.Raw, complaint: str) -> bytes | None:
    """Return JSON with integers where a ValidationError complains about floats.

    In an array all integral floats are replaced, in an object the named one. None if there are none.
    """
    match = _COMPLAINT.fullmatch(complaint)
    place = _LAST_STEP.fullmatch(match["path"]) if match and "int" in match["types"].split(" | ") else None
    if place is None:
        return None
    try:
        value = _ANY.decode(text)
    except msgspec.ValidationError:
        # A number elsewhere is out of range.
        return None
    parent = value_at(place["parent"], value)
    if isinstance(parent, list):
        keys: list[Any] = [index for index, item in enumerate(parent) if _is_integral(item)]
    elif isinstance(parent, dict):
        keys = [key for key in parent if place["name"] in (None, key) and _is_integral(parent[key])]
    else:
        return None
    for key in keys:
        parent[key] = int(parent[key])
    return msgspec.json.encode(value) if keys else None


def _is_integral(value: object) -> bool:
    return isinstance(value, float) and value.is_integer() and abs(value) < 2**63
