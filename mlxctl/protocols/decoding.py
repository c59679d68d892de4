"""Request bytes to schema values.

Raises InvalidRequest for bytes that are not UTF-8 or not JSON (NaN and Infinity are not), wrong types, values
out of range, missing fields and deep nesting. Unknown fields are ignored. Integral floats are integers. An
escape of half a surrogate pair, which JSON permits (RFC 8259, 8.2), is U+FFFD.
"""

import re
from collections.abc import Iterable
from typing import Any, TypeVar

import msgspec

from mlxctl.ir.errors import InvalidRequest
from mlxctl.protocols.integral_floats import max_replacements, with_integers
from mlxctl.protocols.validation_errors import explain

# Jinja's tojson and json.dumps recurse per level, within Python's recursion limit of 1000 frames.
MAX_NESTING = 128

# A surrogate pair, half of one, or another escape.
_ESCAPE = re.compile(
    rb"\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2}|(?P<half>\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.",
    re.DOTALL,
)

_UNREAD = msgspec.json.Decoder(msgspec.Raw)
_ANY = msgspec.json.Decoder(Any)

SchemaType = TypeVar("SchemaType")


def decode_body(body: bytes, decoder: msgspec.json.Decoder[SchemaType]) -> SchemaType:
    """Decode a JSON request body. Raises InvalidRequest."""
    return _decode_as(body, decoder)


def decode_part(text: msgspec.Raw, decoder: msgspec.json.Decoder[SchemaType], path: str) -> SchemaType:
    """Decode a raw value at `path`. Raises InvalidRequest."""
    return _decode_as(text, decoder, root=path)


def _decode_as(
    text: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[SchemaType], *, root: str = ""
) -> SchemaType:
    try:
        return _decode(text, decoder)
    except msgspec.ValidationError as error:
        # The validation error may precede a syntax error further on, which is reported first.
        _decode(text, _UNREAD)
        complaint, given = str(error), text
        for _ in range(max_replacements(memoryview(text).nbytes)):
            replaced = with_integers(given, complaint)
            if replaced is None:
                break
            given = replaced
            try:
                return _decode(given, decoder)
            except msgspec.ValidationError as next_error:
                complaint = str(next_error)
        raise explain(complaint, decoder.type, lambda: decode_json(text), root=root) from error


def decode_json(text: bytes | msgspec.Raw) -> Any:
    """Decode any JSON text of a request. Raises InvalidRequest."""
    try:
        return _decode(text, _ANY)
    except msgspec.ValidationError as error:
        raise InvalidRequest("the request body holds a number that is out of range") from error


def _decode(text: bytes | msgspec.Raw, decoder: msgspec.json.Decoder[SchemaType]) -> SchemaType:
    try:
        return decoder.decode(text)
    except msgspec.ValidationError:
        raise
    except msgspec.DecodeError as error:
        if (whole := _without_halves(text)) != text:
            return _decode(whole, decoder)
        detail = str(error).removeprefix("JSON is malformed: ").removeprefix("Input data was ")
        raise InvalidRequest(f"the request body is not valid JSON: {detail}") from error
    except UnicodeDecodeError as error:
        raise InvalidRequest("the request body is not valid UTF-8; encode it as UTF-8") from error
    except RecursionError as error:
        raise InvalidRequest("the request body is nested too deeply; flatten it") from error


def _without_halves(text: bytes | msgspec.Raw) -> bytes:
    """Return JSON text with U+FFFD for each half of a surrogate pair."""
    return _ESCAPE.sub(lambda escape: rb"\ufffd" if escape["half"] else escape[0], bytes(text))


def check_nesting(value: object, path: str) -> None:
    """Raise InvalidRequest if `value` at `path` is nested deeper than MAX_NESTING."""
    level = [value]
    for _ in range(MAX_NESTING):
        level = [child for node in level for child in _children(node)]
        if not level:
            return
    raise InvalidRequest(f"{path} is nested more than {MAX_NESTING} levels deep; flatten it", param=path)


def _children(node: object) -> Iterable[Any]:
    if isinstance(node, dict):
        return node.values()
    return node if isinstance(node, list) else ()
