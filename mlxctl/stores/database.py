"""Transactions on one SQLite file, which is replaced when it is damaged.

Knows no tables.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TypeVar

from mlxctl.errors import StoreUnavailable
from mlxctl.stores.damage import DATABASE_ERRORS, is_damage, is_disk_full, needs_check
from mlxctl.stores.database_file import open_database, open_in_memory, replace_damaged

MAX_FREE_BYTES = 64 * 1024
"""Free pages in a file, in bytes, that are not returned to the disk."""

_INCREMENTAL = 2

Result = TypeVar("Result")


class Database:
    """A SQLite file, opened or created at the first transaction.

    Any thread may call; one transaction runs at a time. A damaged file is set aside with one log line and
    replaced by an empty one; the transaction that found the damage raises. Every method raises
    StoreUnavailable when the file cannot be used.
    """

    def __init__(self, path: Path, migrations: Sequence[str], *, is_transient: bool = False) -> None:
        """Prepare the file; nothing is opened.

        `transient` data may be lost when the machine crashes; other data is on the disk when its transaction
        ends.
        """
        self._path = path
        self._is_transient = is_transient
        self._migrations = tuple(migrations)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None

    @property
    def is_blank(self) -> bool:
        """Whether there is no file yet."""
        return self._connection is None and not os.path.lexists(self._path)

    @contextmanager
    def reading(self) -> Iterator[sqlite3.Connection]:
        """Return a context of a read-only transaction, which needs no disk space."""
        with self._lock, self._guarded() as connection:
            yield from _transaction(connection, "BEGIN")

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """Return a context of a transaction; an exception rolls it back."""
        with self._lock, self._guarded() as connection:
            yield from _transaction(connection, "BEGIN IMMEDIATE")

    def delete(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run `action`, which deletes rows, and shrink the file.

        Works on a full disk.
        """
        with self._lock, self._guarded() as connection:
            try:
                result = _run(connection, action)
            except sqlite3.Error as error:
                if not is_disk_full(error):
                    raise
                result = _with_memory_journal(connection, action)
            _shrink(connection)
            return result

    def shrink(self) -> None:
        """Return free pages to the disk, as far as possible.

        The change itself needs space.
        """
        with self._lock, self._guarded() as connection:
            _shrink(connection)

    def close(self) -> None:
        """Close the file; the next transaction opens it again. Idempotent."""
        with self._lock:
            self._close()

    @contextmanager
    def _guarded(self) -> Iterator[sqlite3.Connection]:
        """Yield the open connection; turn its errors into StoreUnavailable."""
        try:
            yield self._connection or self._open()
        except DATABASE_ERRORS as error:
            if is_damage(error):
                self._recover(error)
            raise StoreUnavailable(self._path.stem, f"cannot use {str(self._path)!r}: {error}") from error

    def _open(self) -> sqlite3.Connection:
        self._connection = open_database(self._path, self._migrations)
        if self._is_transient:
            # PERF: saves two fsyncs per transaction (5 ms in a virtual machine). Data survives the end of the
            # process.
            self._connection.execute("PRAGMA synchronous = OFF")
        self._file = _identity(self._path)
        return self._connection

    def _close(self) -> None:
        if self._connection is not None:
            with suppress(*DATABASE_ERRORS):
                self._connection.close()
            self._connection = None

    def _recover(self, error: BaseException) -> None:
        """Set the file aside, unless another process has already done so."""
        was_open = self._connection is not None
        self._close()
        if was_open and not needs_check(error) and self._file == _identity(self._path):
            replace_damaged(self._path, error)


class MemoryDatabase(Database):
    """A database in memory, lost with its process."""

    def __init__(self, name: str, migrations: Sequence[str]) -> None:
        """Prepare it; `name` is for errors."""
        super().__init__(Path(name), migrations)

    def _open(self) -> sqlite3.Connection:
        self._connection = open_in_memory(self._path, self._migrations)
        return self._connection


def _transaction(connection: sqlite3.Connection, begin: str) -> Iterator[sqlite3.Connection]:
    if connection.in_transaction:
        connection.rollback()
    connection.execute(begin)
    with connection:
        yield connection


def _run(connection: sqlite3.Connection, action: Callable[[sqlite3.Connection], Result]) -> Result:
    with contextmanager(_transaction)(connection, "BEGIN IMMEDIATE"):
        return action(connection)


def _with_memory_journal(
    connection: sqlite3.Connection, action: Callable[[sqlite3.Connection], Result]
) -> Result:
    """Run `action` with the journal in memory; changes are written in place.

    A crash during it damages the file.
    """
    connection.execute("PRAGMA journal_mode = MEMORY")
    try:
        result = _run(connection, action)
        _vacuum(connection)
        return result
    finally:
        connection.execute("PRAGMA journal_mode = TRUNCATE")


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


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino
