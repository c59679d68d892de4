"""Transactions on one SQLite file, which is replaced when it is damaged.

Knows no tables.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from mlxctl.state.stores.damage import (
    DATABASE_ERRORS,
    is_damage,
    is_disk_full,
    is_read_only,
    needs_check,
)
from mlxctl.state.stores.database_file import (
    file_identity,
    journal_in_memory,
    open_database,
    open_in_memory,
    replace_damaged,
    replace_missing,
    store_error,
)

MAX_FREE_BYTES = 64 * 1024
"""Free pages in a file, in bytes, that are not returned to the disk."""

_INCREMENTAL = 2

Result = TypeVar("Result")
Action = Callable[[sqlite3.Connection], Result]


class Database:
    """A SQLite file, opened or created at the first transaction.

    Any thread may call; one transaction runs at a time. A file that was deleted, or that is damaged and set
    aside, is replaced by an empty one with one log line, and the transaction runs again on that; so an action
    must do nothing but use its connection. Every method raises StoreUnavailable when the file cannot be used.
    """

    def __init__(self, path: Path, migrations: Sequence[str], *, is_transient: bool = False) -> None:
        """Prepare the file; nothing is opened.

        Data that `is_transient` may be lost when the machine crashes; other data is on the disk when its
        transaction ends.
        """
        self._path = path
        self._is_transient = is_transient
        self._migrations = tuple(migrations)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._schema_version = 0

    @property
    def is_blank(self) -> bool:
        """Whether there is no file yet."""
        return self._connection is None and not os.path.lexists(self._path)

    def read(self, action: Action[Result]) -> Result:
        """Run `action` in a read-only transaction.

        It needs no disk space.
        """
        return self._perform(lambda connection: _run(connection, action, "BEGIN"))

    def write(self, action: Action[Result]) -> Result:
        """Run `action` in a transaction; an exception rolls it back."""
        return self._perform(lambda connection: _run(connection, action))

    def delete(self, action: Action[Result]) -> Result:
        """Run `action`, which deletes rows, and shrink the file.

        Works on a full disk.
        """
        return self._perform(lambda connection: _delete(connection, action))

    def shrink(self) -> None:
        """Return free pages to the disk, as far as possible.

        The change itself needs space.
        """
        self._perform(_shrink)

    def close(self) -> None:
        """Close the file; the next transaction opens it again. Idempotent."""
        with self._lock:
            self._close()

    def _perform(self, action: Action[Result]) -> Result:
        """Run `action`, and run it again after replacing a damaged file."""
        with self._lock:
            try:
                try:
                    self._close_if_changed()
                    return action(self._connection or self._open())
                except DATABASE_ERRORS as error:
                    if not is_damage(error):
                        raise
                    self._recover(error)
                    return action(self._open())
            except DATABASE_ERRORS as error:
                if is_read_only(error):
                    # Opened again with the next transaction, which may then write.
                    self._close()
                raise store_error(self._path, f"cannot use {str(self._path)!r}: {error}") from error

    def _close_if_changed(self) -> None:
        """Close a file that was deleted, replaced or given other tables."""
        if self._connection is None or self._file is None:
            return
        is_same = file_identity(self._path) == self._file
        if is_same and _schema_version(self._connection) == self._schema_version:
            return
        self._close()
        if not os.path.lexists(self._path):
            replace_missing(self._path)

    def _open(self) -> sqlite3.Connection:
        self._connection = open_database(self._path, self._migrations)
        if self._is_transient:
            # PERF: saves two fsyncs per transaction (5 ms in a virtual machine). Data survives the end of the
            # process.
            self._connection.execute("PRAGMA synchronous = OFF")
        self._file = file_identity(self._path)
        self._schema_version = _schema_version(self._connection)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(*DATABASE_ERRORS):
                self._connection.close()
            self._connection = None

    def _recover(self, error: BaseException) -> None:
        """Close the file and set it aside.

        Not where it must be checked first, or another process has set it aside.
        """
        was_open = self._connection is not None
        self._close()
        if was_open and not needs_check(error) and self._file == file_identity(self._path):
            replace_damaged(self._path, error)


class MemoryDatabase(Database):
    """A database in memory, lost with its process."""

    def __init__(self, name: str, migrations: Sequence[str]) -> None:
        """Prepare it; `name` is for errors."""
        super().__init__(Path(name), migrations)

    def _open(self) -> sqlite3.Connection:
        self._connection = open_in_memory(self._path, self._migrations)
        return self._connection


def _schema_version(connection: sqlite3.Connection) -> int:
    """Return a number that changes with the tables."""
    version: int
    (version,) = connection.execute("PRAGMA schema_version").fetchone()
    return version


def _run(connection: sqlite3.Connection, action: Action[Result], begin: str = "BEGIN IMMEDIATE") -> Result:
    if connection.in_transaction:
        connection.rollback()
    connection.execute(begin)
    with connection:
        return action(connection)


def _delete(connection: sqlite3.Connection, action: Action[Result]) -> Result:
    try:
        result = _run(connection, action)
    except sqlite3.Error as error:
        if not is_disk_full(error):
            raise
        with journal_in_memory(connection):
            result = _run(connection, action)
            _vacuum(connection)
    _shrink(connection)
    return result


def _shrink(connection: sqlite3.Connection) -> None:
    (num_free,) = connection.execute("PRAGMA freelist_count").fetchone()
    (page_bytes,) = connection.execute("PRAGMA page_size").fetchone()
    if num_free * page_bytes <= MAX_FREE_BYTES:
        return
    try:
        _vacuum(connection)
    except sqlite3.OperationalError as error:
        if is_damage(error):
            raise


def _vacuum(connection: sqlite3.Connection) -> None:
    (mode,) = connection.execute("PRAGMA auto_vacuum").fetchone()
    # A file of an earlier version is rewritten once, to enable incremental vacuum.
    # NOTE: `execute` would take one step of the statement, which frees one page.
    connection.executescript(
        "PRAGMA incremental_vacuum" if mode == _INCREMENTAL else "PRAGMA auto_vacuum = INCREMENTAL; VACUUM"
    )
