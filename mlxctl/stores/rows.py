"""Rows of a database: whether they are what was written. Pure."""

from binascii import crc32
from typing import TypeVar

import msgspec

from mlxctl.stores.damage import DamageError

Result = TypeVar("Result")


def checksum(*values: object) -> int:
    """Return a number that changes when any of the values does; in SQL, the function of this name."""
    found = 0
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        found = crc32(data, crc32(len(data).to_bytes(8, "little"), found))
    return found


def convert_row(row: object, kind: type[Result], what: str) -> Result:
    """Return the values as what they have to be. Raises DamageError: SQLite keeps anything in any column."""
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise DamageError(f"{what} makes no sense: {error}") from error


def check_row(is_sound: object, what: str) -> None:
    """Raise DamageError unless the checksum of a row was that of its values."""
    if is_sound != 1:
        raise DamageError(f"{what} is not what was written")
