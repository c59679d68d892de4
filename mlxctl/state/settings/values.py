"""Conversion of TOML values, environment variables and flags to field types.

Errors are ValueErrors that name the expected type; values of secret fields are not repeated.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import Field
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Literal, Union, get_args, get_origin

from mlxctl.state.locations import expand_user
from mlxctl.state.settings.bounds import MAX_INTEGER

_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)b?\s*", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}
_BOOLEANS = {
    "true": True,
    "yes": True,
    "on": True,
    "1": True,
    "false": False,
    "no": False,
    "off": False,
    "0": False,
}


def convert(value: object, kind: Any, field: "Field[Any]") -> object:
    """Return `value` as type `kind`, within the bounds of `field`.

    Raises ValueError.
    """
    kinds = get_args(kind) if get_origin(kind) in (Union, UnionType) else (kind,)
    target = next(candidate for candidate in kinds if candidate is not NoneType)
    converted = _convert_one(value, target, is_size=field.name.endswith("_bytes"), is_secret=not field.repr)
    _check_bounds(converted, field)
    return converted


def parse_size(text: str) -> int:
    """Return bytes: `8GB` is decimal, `512MiB` binary, `4096` plain.

    Raises ValueError.
    """
    match = _SIZE.fullmatch(text)
    if match is None:
        raise ValueError(f"expected a size like '8GB' or '512MiB', got {text!r}")
    number, prefix, binary = match.groups()
    return int(float(number) * (1024 if binary else 1000) ** _POWERS[prefix.lower()])


def _convert_one(value: object, target: Any, *, is_size: bool, is_secret: bool) -> object:
    shown = "a secret value" if is_secret else repr(value)
    if get_origin(target) is tuple:
        strings = _as_list(value, shown)
        return strings if get_args(target)[0] is str else tuple(expand_user(text) for text in strings)
    if get_origin(target) is dict:
        return _convert_table(value, *get_args(target), shown=shown, is_secret=is_secret)
    if get_origin(target) is Literal:
        choices, written = get_args(target), value if isinstance(value, bool) else str(value)
        if written not in choices:
            raise ValueError(f"expected one of {', '.join(choices)}, got {shown}")
        return written
    if target is Path and isinstance(value, str | Path) and str(value):
        return expand_user(value)
    if target is str and isinstance(value, str) and value:
        return value
    if target is bool:
        return _as_bool(value, shown)
    if target is int and is_size and isinstance(value, str):
        return parse_size(value)
    if target in (int, float):
        return _as_number(value, target, shown)
    raise ValueError(f"expected {_NAMES[target]}, got {shown}")


def _convert_table(value: object, name_type: Any, kind: Any, *, shown: str, is_secret: bool) -> object:
    """Return a table with names of `name_type` and values of `kind`."""
    if get_origin(kind) is tuple:
        return _as_list_table(value, shown)
    if get_origin(kind) is Literal and isinstance(value, Mapping):
        # As for a single value, 8 means "8".
        value = {name: str(choice) if type(choice) is int else choice for name, choice in value.items()}
    if kind is float and isinstance(value, Mapping):
        value = {name: text if isinstance(text, bool) else str(text) for name, text in value.items()}
    table = _as_table(value, shown)
    if get_origin(name_type) is Literal:
        _check_names(table, get_args(name_type))
    return {
        name: _convert_one(text, kind, is_size=False, is_secret=is_secret) for name, text in table.items()
    }


def _as_list(value: object, shown: str) -> tuple[str, ...]:
    """Return a list of strings; a single string is split at commas."""
    items = [item.strip() for item in value.split(",")] if isinstance(value, str) else value
    if isinstance(items, Sequence):
        items = [str(item) if isinstance(item, Path) else item for item in items]
    if not isinstance(items, Sequence) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"expected a list of texts, got {shown}")
    if not all(items):
        raise ValueError("an empty text is not allowed; leave it out to set none")
    return tuple(items)


def _as_table(value: object, shown: str) -> dict[str, str]:
    """Return a table of strings.

    A string is parsed as `name=value, ...`, a list as `name=value` each.
    """
    items = value.split(",") if isinstance(value, str) else value
    if isinstance(items, list) and all(isinstance(item, str) for item in items):
        pairs = (item.partition("=") for item in items)
        value = {name.strip(): text.strip() for name, _, text in pairs}
    if not isinstance(value, Mapping) or not all(
        isinstance(text, str) and text for pair in value.items() for text in pair
    ):
        raise ValueError(f"expected a table of names and texts, none of them empty, got {shown}")
    return dict(value)


def _check_names(table: Mapping[str, object], known: Sequence[str]) -> None:
    for name in table:
        if name not in known:
            raise ValueError(f"expected names of {', '.join(known)}, got {name!r}")


def _as_list_table(value: object, shown: str) -> dict[str, tuple[str, ...]]:
    """Return a table of lists.

    Strings are parsed as `name=item`, with a name repeated for each of its items.
    """
    if isinstance(value, Mapping):
        pairs = [(name, text) for name, strings in value.items() for text in _as_list(strings, shown)]
    else:
        pairs = [
            (name.strip(), text.strip())
            for name, _, text in (item.partition("=") for item in _as_list(value, shown))
        ]
    if not all(isinstance(name, str) and name and text for name, text in pairs):
        raise ValueError(
            f"expected a table of names and lists of texts, or texts like 'name=text', got {shown}"
        )
    return {name: tuple(text for owner, text in pairs if owner == name) for name, _ in pairs}


def _as_bool(value: object, shown: str) -> bool:
    result = value if isinstance(value, bool) else _BOOLEANS.get(str(value).lower())
    if result is None:
        raise ValueError(f"expected true or false, got {shown}")
    return result


def _as_number(value: object, target: type[int] | type[float], shown: str) -> int | float:
    expected = f"expected {_NAMES[target]}, got {shown}"
    if (
        isinstance(value, bool)
        or not isinstance(value, int | float | str)
        or (target is int and isinstance(value, float))
    ):
        raise ValueError(expected)
    try:
        number = target(value)
    except ValueError:
        raise ValueError(expected) from None
    if isinstance(number, int):
        if abs(number) > MAX_INTEGER:
            raise ValueError(f"expected at most {MAX_INTEGER}, got {shown}")
    elif not math.isfinite(number):
        raise ValueError(expected)
    return number


def _check_bounds(value: object, field: "Field[Any]") -> None:
    least, most = field.metadata.get("least"), field.metadata.get("most")
    if isinstance(value, dict):
        for single in value.values():
            _check_bounds(single, field)
    if least is not None and isinstance(value, int | float) and value < least:
        raise ValueError(f"expected at least {least}, got {value}")
    if most is not None and isinstance(value, int | float) and value > most:
        raise ValueError(f"expected at most {most}, got {value}")


_NAMES: dict[Any, str] = {
    str: "a text that is not empty",
    Path: "a path",
    int: "a whole number",
    float: "a number",
}
