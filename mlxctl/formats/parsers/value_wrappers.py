"""What surrounds values in tags: CDATA sections, and names around all arguments."""

from collections.abc import Sequence
from typing import Any

from mlxctl.formats.parsers.json_value import json_text, parse_json
from mlxctl.formats.parsers.python_value import literal_as_json

CDATA, CDATA_END = "<![CDATA[", "]]>"
# Names that models wrap around all arguments of a call as if they were one.
WRAPPERS = ("arguments", "parameters", "properties", "input")


def wrapped_arguments(json: str, names: Sequence[str]) -> dict[str, Any] | None:
    """Return the arguments in a value that holds all of them.

    It is an object, or the text of JSON or of a Python dictionary; None for others, and where no key is one
    of the tool's `names`.
    """
    try:
        value = parse_json(json)
        if isinstance(value, str):
            value = parse_json(literal_as_json(value) or value)
    except ValueError:
        return None
    if not isinstance(value, dict) or not (not value or value.keys() & set(names)):
        return None
    return value if json_text(value) else None


def without_cdata(text: str) -> str:
    """Return the content of a CDATA section.

    `]]>` in it is written as the end of one section and the beginning of the next.
    """
    bare = text.strip()
    if not (bare.startswith(CDATA) and bare.endswith(CDATA_END)):
        return text
    return bare[len(CDATA) : -len(CDATA_END)].replace(
        CDATA_END[:2] + CDATA_END + CDATA + CDATA_END[2:], CDATA_END
    )
