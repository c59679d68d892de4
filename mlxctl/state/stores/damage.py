"""Damaged files: errors that mean damage, and setting files aside."""

import os
import sqlite3
import time
from contextlib import suppress
from itertools import count
from pathlib import Path

import msgspec

MAX_KEPT = 3
"""Damaged versions of one file to keep; the oldest is deleted first."""

_MARK = ".damaged-"
SIDE_FILES = ("-wal", "-shm", "-journal")
"""Suffixes of SQLite's files beside a database."""

# Other errors (locked, full, read-only, not permitted ...) are conditions of the machine; the file stays.
_DAMAGE_CODES = frozenset(
    {
        sqlite3.SQLITE_ERROR,  # fixed statements fail only on changed tables
        sqlite3.SQLITE_INTERNAL,
        sqlite3.SQLITE_CORRUPT,
        sqlite3.SQLITE_CONSTRAINT,  # ... or added triggers and constraints
        sqlite3.SQLITE_MISMATCH,
        sqlite3.SQLITE_FORMAT,
        sqlite3.SQLITE_NOTADB,
    }
)
# Messages of errors without a code.
_NO_DAMAGE = (sqlite3.OperationalError, sqlite3.ProgrammingError, sqlite3.NotSupportedError)
_NO_ROOM_CODES = frozenset({sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR, sqlite3.SQLITE_CANTOPEN})


class DamageError(ValueError):
    """A file, or a row of a database, was changed from outside."""


# Errors of reading a SQLite file. UnicodeError: in SQLite's message. MemoryError: impossible sizes in the
# file.
DATABASE_ERRORS = (sqlite3.Error, msgspec.MsgspecError, DamageError, UnicodeError, MemoryError)


def is_damage(error: BaseException | None) -> bool:
    """Whether the error means that the file is damaged."""
    if isinstance(error, sqlite3.Error):
        code = getattr(error, "sqlite_errorcode", None)
        if code is None:
            return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, _NO_DAMAGE)
        return code & 0xFF in _DAMAGE_CODES
    return isinstance(error, DamageError | UnicodeDecodeError)


def needs_check(error: BaseException) -> bool:
    """Whether the error may have another cause than damage.

    Then the file must be checked.
    """
    code = (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF
    # `checksum` fails only on text that is not UTF-8.
    return code == sqlite3.SQLITE_CONSTRAINT or (
        code == sqlite3.SQLITE_ERROR and "user-defined function" not in str(error)
    )


def is_disk_full(error: BaseException | None) -> bool:
    """Whether the error can mean a full disk or a size limit."""
    return (
        isinstance(error, sqlite3.Error)
        and (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF in _NO_ROOM_CODES
    )


def is_read_only(error: BaseException) -> bool:
    """Whether the error means that the file cannot be written."""
    return (getattr(error, "sqlite_errorcode", None) or 0) & 0xFF == sqlite3.SQLITE_READONLY


def set_aside(path: Path) -> Path:
    """Rename a damaged file and its side files to `NAME.damaged-TIME`.

    Returns the new path. Raises OSError.
    """
    name = f"{path.name}{_MARK}{time.strftime('%Y%m%dT%H%M%S')}"
    target = next(
        candidate
        for number in count(1)
        if not os.path.lexists(candidate := path.with_name(name if number == 1 else f"{name}-{number}"))
    )
    for suffix in ("", *SIDE_FILES):
        if os.path.lexists(candidate := path.with_name(path.name + suffix)):
            candidate.rename(target.with_name(target.name + suffix))
    for old in set_aside_files(path)[:-MAX_KEPT]:
        _remove(old)
    return target


def remove_side_files(path: Path) -> None:
    """Delete what SQLite left beside a deleted file. Raises OSError."""
    for suffix in SIDE_FILES:
        path.with_name(path.name + suffix).unlink(missing_ok=True)


def set_aside_files(path: Path) -> list[Path]:
    """Return the damaged versions of a file, oldest first."""
    found = [
        candidate
        for candidate in path.parent.glob(f"{path.name}{_MARK}*")
        if not candidate.name.endswith(SIDE_FILES)
    ]
    return sorted(found, key=lambda candidate: (candidate.lstat().st_ctime_ns, candidate.name))


def remove_set_aside(path: Path) -> None:
    """Delete the damaged versions of a file, as far as permitted."""
    for old in set_aside_files(path):
        _remove(old)


def _remove(old: Path) -> None:
    for suffix in ("", *SIDE_FILES):
        candidate = old.with_name(old.name + suffix)
        if candidate.is_dir() and not candidate.is_symlink():
            # Not written by mlxctl: it had the file's name, and is kept for its owner.
            continue
        with suppress(OSError):
            candidate.unlink(missing_ok=True)
