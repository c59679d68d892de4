"""Manifest: a SQLite file (WAL mode) that says which record lies where.

SQLite and not a log file of this package, because rows are deleted and updated as often as added: its
transactions survive a kill at any moment, and nothing has to be compacted. Rows are not trusted: a record
repeats in its header what its row says, and is checked when it is read.
"""

import math
import sqlite3
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

import msgspec

from mlxctl.ir.errors import StoreError, StoreUnavailable
from mlxctl.ir.tokens import Salt
from mlxctl.prefix_cache.chunks import Key
from mlxctl.prefix_cache.disk.space import Extent
from mlxctl.state.stores.damage import (
    DATABASE_ERRORS,
    SIDE_FILES,
    DamageError,
    is_disk_full,
    needs_check,
    remove_set_aside,
)
from mlxctl.state.stores.database_file import (
    check_pages,
    file_identity,
    open_database,
    open_exclusive,
    open_read_only,
    replace_damaged,
    replace_missing,
)

MIGRATIONS = (
    """
    CREATE TABLE records (
        segment INTEGER NOT NULL,
        offset INTEGER NOT NULL,
        num_bytes INTEGER NOT NULL,
        digest BLOB NOT NULL,
        chunk BLOB NOT NULL,
        position INTEGER,
        PRIMARY KEY (segment, offset)
    ) WITHOUT ROWID;
    CREATE TABLE chunks (
        key BLOB PRIMARY KEY,
        parent BLOB,
        namespace BLOB NOT NULL,
        start INTEGER NOT NULL,
        tokens BLOB NOT NULL,
        expires_at REAL,
        is_pinned INTEGER NOT NULL,
        used INTEGER NOT NULL
    );
    CREATE TABLE namespaces (
        namespace BLOB PRIMARY KEY,
        model TEXT NOT NULL
    ) WITHOUT ROWID
    """,
    "ALTER TABLE chunks ADD COLUMN salts BLOB",
)

_salts_decoder = msgspec.msgpack.Decoder(tuple[Salt, ...])


@dataclass(frozen=True, slots=True, kw_only=True)
class ChunkRow:
    """Row of a chunk.

    `used` orders chunks by last use; `expires_at` is in unix seconds, infinite without a limit. `salts` are
    those that cover one of its tokens; None when the column is unreadable.
    """

    key: Key
    parent: Key | None
    namespace: bytes
    start: int
    tokens: bytes
    expires_at: float
    is_pinned: bool
    used: int
    salts: tuple[Salt, ...] | None = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordRow:
    """Row of a record: keys and values, or with `position` a state.

    `digest` is the SHA-256 of its bytes.
    """

    extent: Extent
    digest: bytes
    chunk: Key
    position: int | None


class Manifest:
    """Rows of chunks and records in the manifest file.

    One thread writes at a time; every method is one transaction and raises sqlite3.Error if it fails.
    """

    def __init__(self, connection: sqlite3.Connection, path: Path) -> None:
        self._connection = connection
        self._path = path
        self._file = file_identity(path)

    @classmethod
    def open(cls, path: Path) -> "Manifest":
        """Open or create the file of a locked directory.

        A damaged one is renamed, with one log line. Raises StoreError.
        """
        try:
            return cls(
                open_database(
                    path, MIGRATIONS, journal="WAL", check=lambda connection: cls(connection, path).check()
                ),
                path,
            )
        except StoreUnavailable as error:
            if not is_disk_full(error.__cause__):
                raise
            return cls._existing(open_exclusive, path)

    def replaced(self, error: Exception) -> "Manifest":
        """Rename this file because of `error` and return an empty manifest.

        Where the error has another cause, the file stays. Raises StoreError.
        """
        self.close()
        if file_identity(self._path) is None:
            replace_missing(self._path)
        elif not needs_check(error):
            replace_damaged(self._path, error)
        return Manifest.open(self._path)

    @classmethod
    def read_only(cls, path: Path) -> "Manifest":
        """Open an existing file for reading, also while a server uses it.

        Raises StoreError.
        """
        return cls._existing(open_read_only, path)

    @classmethod
    def _existing(cls, connect: Callable[[Path], sqlite3.Connection], path: Path) -> "Manifest":
        try:
            connection = connect(path)
            (version,) = connection.execute("PRAGMA user_version").fetchone()
        except DATABASE_ERRORS as error:
            raise StoreError(f"cannot read the manifest {str(path)!r}: {error}") from error
        if version != len(MIGRATIONS):
            connection.close()
            problem = (
                "was written by a newer mlxctl"
                if version > len(MIGRATIONS)
                else "was written by an older mlxctl; the next `mlxctl serve` updates it"
                if version
                else "is empty: there was no space to write it; `mlxctl serve` writes it when there is"
            )
            raise StoreError(f"the manifest {str(path)!r} {problem}")
        manifest = cls(connection, path)
        try:
            manifest.check()
        except DATABASE_ERRORS as error:
            manifest.close()
            raise StoreError(f"the manifest {str(path)!r} is damaged: {error}") from error
        return manifest

    def close(self) -> None:
        self._connection.close()

    def check(self) -> None:
        """Read everything once; raise one of DATABASE_ERRORS on damage."""
        check_pages(self._connection)
        self.chunks()
        self.records()
        self.models()

    def chunks(self) -> list[ChunkRow]:
        """Return all chunks, the least recently used first."""
        rows = self._connection.execute(
            "SELECT key, parent, namespace, start, tokens, expires_at, is_pinned, used, salts"
            " FROM chunks ORDER BY used, rowid"
        )
        return [
            ChunkRow(
                key=key,
                parent=parent,
                namespace=namespace,
                start=start,
                tokens=tokens,
                expires_at=math.inf if expires_at is None else expires_at,
                is_pinned=bool(is_pinned),
                used=used,
                salts=_read_salts(salts),
            )
            for key, parent, namespace, start, tokens, expires_at, is_pinned, used, salts in rows
        ]

    def records(self) -> list[RecordRow]:
        """Return all records by segment and offset."""
        rows = self._connection.execute(
            "SELECT segment, offset, num_bytes, digest, chunk, position FROM records"
        )
        return [
            RecordRow(
                extent=Extent(segment, offset, num_bytes), digest=digest, chunk=chunk, position=position
            )
            for segment, offset, num_bytes, digest, chunk, position in rows
        ]

    def rows(self) -> tuple[list[ChunkRow], list[RecordRow]]:
        """Return all chunks and records of one moment, despite concurrent writes."""
        self._connection.execute("BEGIN")
        try:
            return self.chunks(), self.records()
        finally:
            self._connection.execute("COMMIT")

    def models(self) -> dict[bytes, str]:
        """Return the model name that each namespace was served under last."""
        rows = self._connection.execute("SELECT namespace, model FROM namespaces")
        return {
            namespace: model
            for namespace, model in rows
            if isinstance(namespace, bytes) and isinstance(model, str)
        }

    def set_model_name(self, namespace: bytes, model: str) -> None:
        """Store the name of a namespace's model, for display."""
        with self._transaction():
            self._connection.execute("INSERT OR REPLACE INTO namespaces VALUES (?, ?)", (namespace, model))

    def add(self, record: RecordRow, chunk: ChunkRow | None) -> None:
        """Add a record, with its chunk if the chunk is new."""
        with self._transaction():
            if chunk is not None:
                self._connection.execute(
                    "INSERT OR REPLACE INTO chunks VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)", _chunk_values(chunk)
                )
            extent = record.extent
            values = (
                extent.segment,
                extent.offset,
                extent.num_bytes,
                record.digest,
                record.chunk,
                record.position,
            )
            self._connection.execute("INSERT OR REPLACE INTO records VALUES (?, ?, ?, ?, ?, ?)", values)

    def remove(self, extents: Iterable[Extent], chunks: Iterable[Key] = ()) -> None:
        """Remove records, chunks whose keys and values are among them, and `chunks`."""
        with self._transaction():
            self._connection.executemany("DELETE FROM chunks WHERE key = ?", [(key,) for key in chunks])
            for extent in extents:
                location = (extent.segment, extent.offset)
                self._connection.execute(
                    "DELETE FROM chunks WHERE key ="
                    " (SELECT chunk FROM records WHERE segment = ? AND offset = ? AND position IS NULL)",
                    location,
                )
                self._connection.execute("DELETE FROM records WHERE segment = ? AND offset = ?", location)

    def update_chunks(self, chunks: Iterable[tuple[Key, float, bool, int]]) -> None:
        """Update expiry, pin and order of use of chunks."""
        with self._transaction():
            self._connection.executemany(
                "UPDATE chunks SET expires_at = ?, is_pinned = ?, used = ? WHERE key = ?",
                [(_finite(expires_at), is_pinned, used, key) for key, expires_at, is_pinned, used in chunks],
            )

    def reassign_owners(self, states: Iterable[tuple[Extent, Key]]) -> None:
        """Assign states to other chunks with the same leading tokens."""
        with self._transaction():
            self._connection.executemany(
                "UPDATE records SET chunk = ? WHERE segment = ? AND offset = ?",
                [(chunk, extent.segment, extent.offset) for extent, chunk in states],
            )

    def _transaction(self) -> sqlite3.Connection:
        if file_identity(self._path) != self._file:
            raise DamageError("it was deleted or replaced while it was in use")
        self._connection.execute("BEGIN IMMEDIATE")
        return self._connection


def discard_manifest(path: Path) -> None:
    """Delete a manifest with its side files and renamed damaged ones.

    Raises OSError.
    """
    for suffix in ("", *SIDE_FILES):
        path.with_name(path.name + suffix).unlink(missing_ok=True)
    remove_set_aside(path)


def _chunk_values(row: ChunkRow) -> tuple[object, ...]:
    salts = msgspec.msgpack.encode(row.salts) if row.salts else None
    return (
        row.key,
        row.parent,
        row.namespace,
        row.start,
        row.tokens,
        _finite(row.expires_at),
        row.is_pinned,
        row.used,
        salts,
    )


def _read_salts(data: object) -> tuple[Salt, ...] | None:
    if data is None:
        return ()
    try:
        return _salts_decoder.decode(data)  # type: ignore[arg-type]
    except (msgspec.MsgspecError, TypeError):
        return None


def _finite(expires_at: float) -> float | None:
    return None if expires_at == math.inf else expires_at
