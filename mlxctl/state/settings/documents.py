"""Reading of JSON and TOML files with bounded size.

All parse errors become DocumentError.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

_MAX_BYTES = 64 * 1024**2


class DocumentError(ValueError):
    """Invalid UTF-8, JSON or TOML, too deep nesting, or too large."""


def read_text(path: Path) -> str:
    """Return the text of a file. Raises OSError and DocumentError."""
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise DocumentError(f"it is larger than {_MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(str(error)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return a TOML document. Raises DocumentError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(str(error)) from None


def parse_json(text: str | bytes) -> Any:
    """Return a JSON document. Raises DocumentError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(str(error)) from None
