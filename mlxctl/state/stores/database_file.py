"""Opens and checks SQLite files, and replaces damaged ones.

Knows no tables.
"""

import errno
import logging
import os
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from functools import cache
from pathlib import Path
from typing import Any, Literal

from mlxctl.ir.errors import StoreUnavailable
from mlxctl.state.stores.damage import (
    DATABASE_ERRORS,
    SIDE_FILES,
    DamageError,
    is_damage,
    remove_side_files,
    set_aside,
)
from mlxctl.state.stores.rows import checksum

# Another mlxctl process may hold the write lock for several small transactions.
_LOCK_SECONDS = 5.0
# Larger files are not checked as a whole when opened; damage is found when read.
_MAX_CHECKED_BYTES = 32 * 1024**2

_READ_ONLY_ERRORS = (errno.EROFS, errno.EACCES, errno.EPERM)

Journal = Literal["TRUNCATE", "WAL"]
"""TRUNCATE: a journal file per transaction. WAL: readers and a writer do not block each other."""

Check = Callable[[sqlite3.Connection], object]

_log = logging.getLogger(__name__)


def open_database(
    path: Path,
    migrations: Sequence[str],
    *,
    journal: Journal = "TRUNCATE",
    check: Check | None = None,
    replaces_damaged: bool = True,
) -> sqlite3.Connection:
    """Open or create the file, owner-only, with missing `migrations` applied.

    A migration is SQL statements separated by semicolons, which may occur nowhere else; they may call
    `checksum(...)`. A damaged file, or one in which `check` finds damage, is set aside and an empty one is
    created if `replaces_damaged`. A file on a read-only disk is opened for reading. The connection may be
    used by any thread, one at a time, and commits by itself. Raises StoreUnavailable.
    """
    try:
        try:
            return _opened(path, tuple(migrations), journal, check)
        except DATABASE_ERRORS as error:
            if not is_damage(error) or not replaces_damaged:
                raise
            replace_damaged(path, error)
            return _opened(path, tuple(migrations), journal, check)
    except (*DATABASE_ERRORS, OSError) as error:
        raise store_error(path, f"cannot use {str(path)!r}: {error}") from error


def open_in_memory(path: Path, migrations: Sequence[str]) -> sqlite3.Connection:
    """Open a database in memory; `path` is for errors."""
    connection = _connect(":memory:", uri=False)
    connection.create_function("checksum", -1, checksum, deterministic=True)
    connection.execute("PRAGMA foreign_keys = ON")
    _migrate(connection, path, tuple(migrations))
    return connection


def open_read_only(path: Path) -> sqlite3.Connection:
    """Open an existing file for reading, beside a running server.

    Raises sqlite3.Error.
    """
    return _connect(f"{path.absolute().as_uri()}?mode=ro", uri=True)


def open_exclusive(path: Path) -> sqlite3.Connection:
    """Open an existing file that no other process uses.

    Creates no side files, so it works on a full disk.
    """
    connection = _connect(str(path), uri=False)
    # With an exclusive lock WAL needs no shared memory. Changes are written in place, the journal is in
    # memory.
    connection.execute("PRAGMA locking_mode = EXCLUSIVE")
    connection.execute("PRAGMA journal_mode = MEMORY")
    connection.execute("PRAGMA secure_delete = ON")
    return connection


@contextmanager
def journal_in_memory(connection: sqlite3.Connection) -> Iterator[None]:
    """Return a context of changes whose journal is in memory.

    They need no disk space for it, and are written in place; a crash in it damages the file.
    """
    connection.execute("PRAGMA journal_mode = MEMORY")
    try:
        yield
    finally:
        connection.execute("PRAGMA journal_mode = TRUNCATE")


def check_pages(connection: sqlite3.Connection) -> None:
    """Read the whole file. Raises DamageError or sqlite3.Error for damage."""
    (verdict,) = connection.execute("PRAGMA quick_check(1)").fetchone()
    if verdict != "ok":
        raise DamageError(verdict.splitlines()[-1])


def _opened(
    path: Path, migrations: tuple[str, ...], journal: Journal, check: Check | None
) -> sqlite3.Connection:
    is_writable = _create(path)
    for file in (path, *(path.with_name(path.name + suffix) for suffix in SIDE_FILES)):
        if os.path.lexists(file) and not file.is_file():
            raise DamageError(f"{file.name} is not a file")
        _check_owner(path, file)
    connection = _connect(str(path), uri=False) if is_writable else open_read_only(path)
    try:
        connection.create_function("checksum", -1, checksum, deterministic=True)
        if is_writable:
            _set_journal(connection, journal)
        # PERF: WAL without fsync per commit; a crash of the machine may lose the last commits, never the
        # file.
        connection.execute("PRAGMA synchronous = NORMAL")
        connection.execute("PRAGMA foreign_keys = ON")
        # Deleted contents are overwritten.
        connection.execute("PRAGMA secure_delete = ON")
        if path.stat().st_size <= _MAX_CHECKED_BYTES:
            check_pages(connection)
        _migrate(connection, path, migrations)
        _check_tables(connection, migrations)
        if check is not None:
            check(connection)
    except BaseException:
        connection.close()
        raise
    return connection


def _check_owner(path: Path, file: Path) -> None:
    """Raise StoreUnavailable for a file that another user has put there."""
    with suppress(FileNotFoundError):
        # SEC: in a directory that others can write, they may have created it first, with keys of their own.
        if _owners(file) - {os.getuid(), 0} - _owners(file.parent):
            raise store_error(
                path, f"cannot use {str(path)!r}: {file.name} belongs to another user; move it away"
            )


def _owners(file: Path) -> set[int]:
    """Return the owners of a file and of the link to it."""
    return {file.stat().st_uid, file.lstat().st_uid}


def _create(path: Path) -> bool:
    """Create the file if missing; return whether it can be written.

    Raises OSError.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        path.touch(mode=0o600)
    except OSError as error:
        if error.errno not in _READ_ONLY_ERRORS or not path.is_file():
            raise
        return False
    return True


def replace_damaged(path: Path, error: BaseException) -> None:
    """Set a damaged file aside, with one log line. Raises StoreUnavailable."""
    try:
        aside = set_aside(path)
    except OSError as failure:
        _log.warning(
            "%s is damaged (%s) and cannot be set aside: %s", path, error, failure.strerror or failure
        )
        problem = f"{str(path)!r} is damaged ({error}) and cannot be set aside: {failure}"
        raise store_error(path, problem) from failure
    _log.warning(
        "%s is damaged (%s); it was set aside as %s and replaced by an empty one",
        path,
        error,
        aside.name,
    )


def replace_missing(path: Path) -> None:
    """Log that an open file was deleted, and delete its side files.

    Raises StoreUnavailable.
    """
    try:
        remove_side_files(path)
    except OSError as error:
        raise store_error(path, f"cannot use {str(path)!r}: {error}") from error
    _log.warning("%s was deleted while it was in use; it is replaced by an empty one", path)


def store_error(path: Path, problem: str) -> StoreUnavailable:
    """Return the error of a store, named for its file."""
    return StoreUnavailable(path.with_suffix("").name, problem)


def file_identity(path: Path) -> tuple[int, int] | None:
    """Return device and inode of a file; None without a file."""
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_dev, status.st_ino


def _set_journal(connection: sqlite3.Connection, journal: Journal) -> None:
    if journal == "WAL":
        connection.execute("PRAGMA journal_mode = WAL")
        # PERF: checkpoint every 256 pages, so that the log stays at about 1 MB.
        connection.execute("PRAGMA wal_autocheckpoint = 256")
        connection.execute("PRAGMA journal_size_limit = 1048576")
        return
    if connection.execute("PRAGMA page_count").fetchone() == (0,):
        # Before the first table exists; later each change of it would write to the file, also on a full disk.
        connection.execute("PRAGMA auto_vacuum = INCREMENTAL")
    # An earlier version used WAL; it stays while another process of that version uses the file.
    try:
        connection.execute(f"PRAGMA journal_mode = {journal}")
    except sqlite3.OperationalError as error:
        if is_damage(error):
            raise


def _check_tables(connection: sqlite3.Connection, migrations: tuple[str, ...]) -> None:
    expected, found = _schema(migrations), _read_schema(connection)
    if missing := expected - found:
        raise DamageError(f"it has no {' '.join(min(missing))}")
    if added := found - expected:
        raise DamageError(f"it has an unknown {' '.join(min(added))}")


@cache
def _schema(migrations: tuple[str, ...]) -> frozenset[tuple[str, str]]:
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.create_function("checksum", -1, checksum, deterministic=True)
        for script in migrations:
            connection.executescript(script)
        return _read_schema(connection)


def _read_schema(connection: sqlite3.Connection) -> frozenset[tuple[str, str]]:
    """Return kind and name of columns, indexes, triggers and views.

    Without SQLite's own.
    """
    return frozenset(
        connection.execute(
            "SELECT 'column', tables.name || '.' || columns.name FROM sqlite_schema AS tables,"
            " pragma_table_xinfo(tables.name) AS columns"
            " WHERE tables.type = 'table' AND tables.name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
            " UNION ALL SELECT type, name FROM sqlite_schema"
            " WHERE type <> 'table' AND name NOT LIKE 'sqlite\\_%' ESCAPE '\\'"
        )
    )


def _migrate(connection: sqlite3.Connection, path: Path, migrations: tuple[str, ...]) -> None:
    (version,) = connection.execute("PRAGMA user_version").fetchone()
    if version == len(migrations):
        return
    # One transaction: a process that opens the file at the same time waits, then has nothing to do.
    connection.execute("BEGIN IMMEDIATE")
    with connection:
        (version,) = connection.execute("PRAGMA user_version").fetchone()
        if version > len(migrations):
            problem = f"{str(path)!r} was written by a newer mlxctl; move it away, or use that version"
            raise store_error(path, problem)
        if version < 0:
            raise DamageError(f"it has version {version}")
        for script in migrations[version:]:
            for statement in script.split(";"):
                connection.execute(statement)
        connection.execute(f"PRAGMA user_version = {len(migrations)}")


class _CheckedConnection(sqlite3.Connection):
    """Raises only sqlite3.Error and MemoryError for damaged contents."""

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        try:
            return super().execute(*arguments)
        except UnicodeDecodeError as error:
            # SQLite's message about a damaged file quotes from it.
            raise sqlite3.DatabaseError("the database has names that are not UTF-8") from error


def _connect(file: str, *, uri: bool) -> sqlite3.Connection:
    connection = sqlite3.connect(
        file,
        uri=uri,
        timeout=_LOCK_SECONDS,
        isolation_level=None,
        check_same_thread=False,
        factory=_CheckedConnection,
    )
    connection.text_factory = _decode
    return connection


def _decode(text: bytes) -> str:
    return text.decode(errors="replace")
