"""One SQLite file: opened once, in WAL mode, its tables brought up to date. Knows no tables of its own."""

import sqlite3
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from mlxctl.errors import StoreError

# Another process of ours may hold the write lock for the time of one small transaction.
_LOCK_SECONDS = 2.0


class Database:
    """A file that is opened, or made, at the first transaction. Any thread may call; one at a time is let in."""

    def __init__(self, path: Path, migrations: Sequence[str]) -> None:
        self._path = path
        self._migrations = migrations
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None

    @property
    def is_blank(self) -> bool:
        """Whether nothing was ever written: there is no file yet."""
        return self._connection is None and not self._path.exists()

    @contextmanager
    def transaction(self) -> Iterator[sqlite3.Connection]:
        """One transaction; an exception rolls it back. Raises StoreError when the disk fails it, or a row cannot be read."""
        with self._lock:
            connection = self._connection = self._connection or open_database(self._path, self._migrations)
            try:
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    yield connection
            except (sqlite3.Error, msgspec.MsgspecError) as error:
                raise StoreError(f"cannot use the database {str(self._path)!r}: {error}") from error

    def close(self) -> None:
        """Close the file; the next transaction opens it again. Idempotent."""
        with self._lock:
            if self._connection is not None:
                self._connection.close()
                self._connection = None


def open_database(path: Path, migrations: Sequence[str]) -> sqlite3.Connection:
    """Open or make the file at `path`, owner-only, with each of the `migrations` applied once, in order.

    A migration is SQL statements with semicolons between them, and nowhere else.
    The connection may be used by any thread, one at a time, and commits by itself. Raises StoreError.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
        connection = sqlite3.connect(path, timeout=_LOCK_SECONDS, isolation_level=None, check_same_thread=False)
        connection.execute("PRAGMA journal_mode = WAL")
        # PERF: no fsync at each commit; a crash of the machine may lose the last ones, but never the file.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        # What a caller deletes is not left in the file.
        connection.execute("PRAGMA secure_delete = ON")
        _migrate(connection, path, migrations)
    except (sqlite3.Error, OSError) as error:
        raise StoreError(f"cannot use the database {str(path)!r}: {error}") from error
    return connection


def _migrate(connection: sqlite3.Connection, path: Path, migrations: Sequence[str]) -> None:
    # One transaction: another process that opens the file at the same time waits, and then finds nothing left to do.
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(migrations):
            raise StoreError(f"the database {str(path)!r} was written by a newer mlxctl; move it away, or use that version")
        for script in migrations[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")
