"""JSON and TOML documents from files, whatever is in them: the one place that knows what reading them may
raise.
"""

import json
import tomllib
from pathlib import Path
from typing import Any

_MAX_BYTES = 64 * 1024**2


class DocumentError(ValueError):
    """A document is damaged: no UTF-8, no JSON or TOML, nested too deeply, or too large."""


def read_text(path: Path) -> str:
    """Return the text of a file. Raises OSError, and DocumentError when it is too large or no UTF-8."""
    with path.open("rb") as file:
        data = file.read(_MAX_BYTES + 1)
    if len(data) > _MAX_BYTES:
        raise DocumentError(f"it is larger than {_MAX_BYTES} bytes")
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        raise DocumentError(str(error)) from None


def parse_toml(text: str) -> dict[str, Any]:
    """Return the tables of a TOML document. Raises DocumentError."""
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(str(error)) from None


def parse_json(text: str | bytes) -> Any:
    """Return the value of a JSON document. Raises DocumentError."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DocumentError(str(error)) from None
