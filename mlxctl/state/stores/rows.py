"""Checksums and types of database rows. Pure."""

from binascii import crc32
from typing import TypeVar

import msgspec

from mlxctl.state.stores.damage import DamageError

Result = TypeVar("Result")


def checksum(*values: object) -> int:
    """Return a checksum of the values.

    Also available as SQL function.
    """
    found = 0
    for value in values:
        data = value if isinstance(value, bytes) else repr(value).encode()
        found = crc32(data, crc32(len(data).to_bytes(8, "little"), found))
    return found


def convert_row(row: object, kind: type[Result], what: str) -> Result:
    """Return the row converted to `kind`.

    Raises DamageError: SQLite accepts any type in any column.
    """
    try:
        return msgspec.convert(row, kind)
    except msgspec.ValidationError as error:
        raise DamageError(f"{what} is invalid: {error}") from error


def check_row(is_sound: object, what: str) -> None:
    """Raise DamageError unless `is_sound`, the comparison of the checksum, is 1."""
    if is_sound != 1:
        raise DamageError(f"{what} does not match its checksum")
