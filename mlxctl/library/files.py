"""Bounded reading of a model directory's small files, which are untrusted."""

import json
import logging
import re
from collections.abc import Collection
from functools import lru_cache
from pathlib import Path
from typing import Any, TypeVar

from mlxctl.ir.errors import BrokenModel
from mlxctl.library.names import display_name
from mlxctl.state.locations.regular_file import read_regular_file

MAX_JSON_BYTES = 64 << 20

OTHER_FORMAT = (
    "GGUF files are converted by `mlxctl models import FILE.gguf`; `mlxctl models search` finds models in "
    "the MLX format"
)

_WHOLE = "model.safetensors"
_PART = re.compile(r"(?P<name>.*)[0-9]{5}-of-(?P<count>[0-9]{5})(?P<end>\.safetensors)")

Shape = TypeVar("Shape")

_log = logging.getLogger(__name__)


def read_text(directory: Path, name: str, *, limit_bytes: int) -> str | None:
    """Return the text of a file, None if it does not exist.

    Raises BrokenModel if it is unreadable, too large or not UTF-8.
    """
    path = directory / name
    try:
        if not path.is_file():
            return None
        data = read_regular_file(path, limit_bytes + 1)
        if len(data) > limit_bytes:
            raise BrokenModel(
                directory, f"{name} of model {display_name(directory)!r} is larger than {limit_bytes} bytes"
            )
        # Some editors begin a file with a byte order mark.
        return data.decode("utf-8").removeprefix("\ufeff")
    except (OSError, UnicodeDecodeError) as error:
        raise BrokenModel(
            directory, f"{name} of model {display_name(directory)!r} cannot be read: {error}"
        ) from error


def missing_config(directory: Path, name: str) -> str:
    """Return the problem of a model without config.json.

    Names GGUF files, and the command for a directory of models.
    """
    hint = ""
    if any(directory.glob("*.gguf")):
        hint = f"; {OTHER_FORMAT}"
    elif any(directory.glob("*/config.json")):
        hint = f"; it is a directory of models: mlxctl serve --models-dir {directory}"
    return f"model {name!r} has no config.json{hint}"


def read_json_object(directory: Path, name: str) -> dict[str, Any] | None:
    """Return the JSON object in a file.

    None if it does not exist. Raises BrokenModel for anything else.
    """
    return _read_json(directory, name, dict, "object")


def read_optional_json(directory: Path, name: str) -> dict[str, Any]:
    """Return the JSON object in an optional file.

    Empty if it does not exist, and with a warning if it cannot be used.
    """
    try:
        return read_json_object(directory, name) or {}
    except BrokenModel as error:
        warn_once(f"{error}; the file is ignored")
        return {}


@lru_cache(maxsize=256)
def warn_once(message: str) -> None:
    """Log a warning about a model's files, which are read often."""
    _log.warning("%s", message)


def missing_weight_files(directory: Path, found: Collection[str]) -> list[str]:
    """Return the weight files that are missing beside those `found`.

    By the index, or where it names none of them, as after a conversion, by the numbers in their names.
    """
    weight_map = read_optional_json(directory, "model.safetensors.index.json").get("weight_map")
    named = {str(file) for file in weight_map.values()} if isinstance(weight_map, dict) else set()
    if named.isdisjoint(found):
        parts = () if _WHOLE in found else filter(None, map(_PART.fullmatch, found))
        named = {
            f"{part['name']}{number:05}-of-{part['count']}{part['end']}"
            for part in parts
            for number in range(1, int(part["count"]) + 1)
        }
    return sorted(named.difference(found))


def read_json_array(directory: Path, name: str) -> list[Any] | None:
    """Return the JSON array in a file.

    None if it does not exist. Raises BrokenModel for anything else.
    """
    return _read_json(directory, name, list, "array")


def _read_json(directory: Path, name: str, kind: type[Shape], shape: str) -> Shape | None:
    text = read_text(directory, name, limit_bytes=MAX_JSON_BYTES)
    if text is None:
        return None
    try:
        value = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BrokenModel(
            directory, f"{name} of model {display_name(directory)!r} is not valid JSON: {error}"
        ) from error
    if not isinstance(value, kind):
        raise BrokenModel(
            directory,
            f"{name} of model {display_name(directory)!r} must be a JSON {shape}, not {type(value).__name__}",
        )
    return value


def embedding_error(path: Path, what: str) -> BrokenModel:
    """Return the error of an embedding model that cannot be used."""
    return BrokenModel(path, f"embedding model {display_name(path)!r} {what}")
