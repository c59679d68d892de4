"""API keys, limits and guardrails in an SQLite file, optionally encrypted."""

import hashlib
import logging
import os
import secrets
import sqlite3
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import NamedTuple

from mlxctl.ir.errors import SettingsError, StoreUnavailable
from mlxctl.state.installed import missing_for
from mlxctl.state.stores.damage import (
    DATABASE_ERRORS,
    DamageError,
    is_damage,
    is_disk_full,
    remove_side_files,
    set_aside,
)
from mlxctl.state.stores.database_file import journal_in_memory, open_database

SALT_BYTES = 16
_NONCE_BYTES = 12
_KEY_BYTES = 32
# RFC 7914's parameters for interactive use, doubled; 64 MiB of memory and about 0.1 s.
_SCRYPT_COST, _SCRYPT_BLOCK, _SCRYPT_PARALLEL = 2**15, 8, 1
_MIGRATIONS = (
    """
    CREATE TABLE facts (name TEXT PRIMARY KEY, value BLOB NOT NULL);
    CREATE TABLE records (
        kind TEXT NOT NULL, id TEXT NOT NULL, value BLOB NOT NULL, PRIMARY KEY (kind, id)
    ) WITHOUT ROWID;
    CREATE TABLE uses (id TEXT PRIMARY KEY, last_used REAL NOT NULL) WITHOUT ROWID
    """,
    """
    CREATE TABLE totals (checksum INTEGER NOT NULL);
    INSERT INTO totals SELECT
        (SELECT total(checksum(kind, id, value)) FROM records)
        + (SELECT total(checksum(name, value)) FROM facts);
    ALTER TABLE uses ADD COLUMN checksum INTEGER;
    UPDATE uses SET checksum = checksum(id, last_used)
    """,
)
# A sum over all rows also finds a row that is missing. 10,000 checksums of 32 bits are exact as a float.
_TOTAL = (
    "(SELECT total(checksum(kind, id, value)) FROM records)"
    " + (SELECT total(checksum(name, value)) FROM facts)"
)
_CHECK, _CHECKED = "facts/check", b"mlxctl policy"
MAX_RECORDS = 10_000

_log = logging.getLogger(__name__)


class Record(NamedTuple):
    """A stored value: JSON, by kind and id."""

    kind: str
    id: str
    value: bytes


class PolicyStore:
    """The file of a policy store.

    Any thread may call; each call opens the file. Other processes may change it; `version` changes then. A
    damaged file is never replaced by an empty one, because requests would need no key then. Methods raise
    StoreUnavailable, also for contents that do not match their checksum, and SettingsError for a wrong
    passphrase or a value that another program encrypted.
    """

    def __init__(self, path: Path, passphrase: str | None = None, *, keys_marker: Path | None = None) -> None:
        """Prepare the store; nothing is opened.

        `keys_marker` is a file apart from it, written once the store has keys.
        """
        self.path = path
        self._passphrase = passphrase
        self._keys_marker = keys_marker
        self._sealer: Sealer | None = None

    def version(self) -> tuple[int, int, int] | None:
        """Return a value that changes with the file; None without a file."""
        try:
            status = self.path.stat()
        except FileNotFoundError:
            if self.path.is_symlink():
                raise StoreUnavailable(
                    "policy", f"{str(self.path)!r} is a link to a file that does not exist"
                ) from None
            return None
        except OSError as error:
            raise StoreUnavailable("policy", f"cannot use {str(self.path)!r}: {error}") from error
        return status.st_ino, status.st_mtime_ns, status.st_size

    def read(self) -> list[Record]:
        """Return all records, by kind and id."""
        if self.version() is None:
            return []
        with self._connected() as connection:
            rows = connection.execute("SELECT kind, id, value FROM records ORDER BY kind, id").fetchall()
            records = [Record(kind, name, self._open(kind, name, value)) for kind, name, value in rows]
        if any(record.kind == "key" for record in records):
            self._remember_keys()
        return records

    @property
    def had_keys(self) -> bool:
        """Whether this store, or an earlier file at its path, had keys."""
        return self._keys_marker is not None and os.path.lexists(self._keys_marker)

    def _remember_keys(self) -> None:
        if self._keys_marker is None or self.had_keys:
            return
        try:
            self._keys_marker.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            # The text is for people.
            self._keys_marker.write_bytes(os.fsencode(self.path.absolute()))
        except OSError as error:
            _log.warning("%s cannot be written: %s", self._keys_marker, error.strerror)

    def put(self, kind: str, name: str, value: bytes) -> None:
        """Add or replace a record.

        The file is created with the first.
        """
        self._put_all([Record(kind, name, value)])

    def _put_all(self, records: Iterable[Record]) -> None:
        with self._connected() as connection:
            rows = [(kind, name, self._seal(kind, name, value)) for kind, name, value in records]
            try:
                _replace(connection, rows)
            except sqlite3.Error as error:
                if not is_disk_full(error):
                    raise
                # A key can be revoked on a full disk.
                with journal_in_memory(connection):
                    _replace(connection, rows)

    def is_lost(self) -> bool:
        """Whether the file is missing or damaged.

        Raises StoreUnavailable or SettingsError when it cannot be used for another reason.
        """
        if self.version() is None:
            return True
        try:
            self.read()
        except StoreUnavailable as error:
            if not is_damage(error.__cause__):
                raise
            return True
        return False

    def restore(self, records: Iterable[Record]) -> None:
        """Write `records` to a new file; a damaged one is set aside."""
        try:
            if self.version() is None:
                remove_side_files(self.path)
            else:
                set_aside(self.path)
        except OSError as error:
            problem = f"{str(self.path)!r} is damaged and cannot be set aside: {error}"
            raise StoreUnavailable("policy", problem) from error
        self._put_all(records)
        _log.warning("%s was lost or damaged; it was written again from what the server uses", self.path)

    def record_uses(self, uses: dict[str, float]) -> None:
        """Store when keys were last used, in unix seconds.

        A missing file stays missing: an empty one would mean that there are no keys.
        """
        if self.version() is None:
            return
        with self._connected() as connection, connection:
            connection.execute("BEGIN IMMEDIATE")
            connection.executemany(
                "INSERT OR REPLACE INTO uses VALUES (?1, ?2, checksum(?1, ?2))", uses.items()
            )

    def last_uses(self) -> dict[str, float]:
        """Return when keys were last used, without damaged times."""
        if self.version() is None:
            return {}
        with self._connected() as connection:
            return dict(
                connection.execute(
                    "SELECT id, last_used FROM uses WHERE checksum = checksum(id, last_used)"
                ).fetchall()
            )

    @contextmanager
    def _connected(self) -> Iterator[sqlite3.Connection]:
        if (version := self.version()) is not None and not version[-1]:
            # SQLite takes an empty file for a new database; then requests would need no key any more.
            raise StoreUnavailable(
                "policy",
                f"{str(self.path)!r} is empty; restore it from a backup, or delete it and add a new key",
            ) from DamageError("the file is empty")
        try:
            connection = open_database(self.path, _MIGRATIONS, replaces_damaged=False)
        except StoreUnavailable:
            if version is None:
                self._remove_empty()
            raise
        try:
            _check_total(connection)
            self._unlock(connection)
            yield connection
        except DATABASE_ERRORS as error:
            raise StoreUnavailable("policy", f"cannot use {str(self.path)!r}: {error}") from error
        finally:
            connection.close()

    def _remove_empty(self) -> None:
        """Remove a new file that a full disk left empty.

        It would keep the server from starting.
        """
        with suppress(OSError):
            if not self.path.stat().st_size:
                self.path.unlink()

    def _unlock(self, connection: sqlite3.Connection) -> None:
        """Derive the key at the first use.

        A store that was not encrypted is now.
        """
        facts = dict(connection.execute("SELECT name, value FROM facts").fetchall())
        if not facts:
            if self._passphrase is not None:
                self._encrypt(connection)
            return
        if self._passphrase is None:
            raise SettingsError(
                f"the policy store {str(self.path)!r} is encrypted; set policy.passphrase_file or "
                "MLXCTL_POLICY_PASSPHRASE"
            )
        if self._sealer is None:
            sealer = Sealer(self._passphrase, facts.get("salt", b""))
            try:
                sealer.open(facts.get("check", b""), _CHECK)
            except TamperedValue:
                raise SettingsError(
                    f"the passphrase does not open the policy store {str(self.path)!r}"
                ) from None
            self._sealer = sealer

    def _encrypt(self, connection: sqlite3.Connection) -> None:
        assert self._passphrase is not None, "only called with a passphrase"
        salt = secrets.token_bytes(SALT_BYTES)
        self._sealer = Sealer(self._passphrase, salt)
        with connection:
            connection.execute("BEGIN IMMEDIATE")
            rows = connection.execute("SELECT kind, id, value FROM records").fetchall()
            for kind, name, value in rows:
                sealed = self._seal(kind, name, value)
                connection.execute(
                    "UPDATE records SET value = ? WHERE kind = ? AND id = ?", (sealed, kind, name)
                )
            check = self._sealer.seal(_CHECKED, _CHECK)
            connection.executemany("INSERT INTO facts VALUES (?, ?)", [("salt", salt), ("check", check)])
            _update_total(connection)

    def _seal(self, kind: str, name: str, value: bytes) -> bytes:
        return value if self._sealer is None else self._sealer.seal(value, f"{kind}/{name}")

    def _open(self, kind: str, name: str, value: bytes) -> bytes:
        if self._sealer is None:
            return value
        try:
            return self._sealer.open(value, f"{kind}/{name}")
        except TamperedValue:
            raise SettingsError(
                f"{kind} {name!r} in the policy store {str(self.path)!r} was changed by another program; "
                "restore the file from a backup"
            ) from None


def _replace(connection: sqlite3.Connection, rows: Sequence[tuple[str, str, bytes]]) -> None:
    with connection:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR REPLACE INTO records VALUES (?, ?, ?)", rows)
        (num_records,) = connection.execute("SELECT count(*) FROM records").fetchone()
        if num_records > MAX_RECORDS:
            raise StoreUnavailable("policy", f"the policy store has {MAX_RECORDS} records, its maximum")
        _update_total(connection)


def _check_total(connection: sqlite3.Connection) -> None:
    """Raise DamageError unless the contents match their checksum."""
    sums = connection.execute(f"SELECT checksum = {_TOTAL} FROM totals").fetchall()  # noqa: S608
    if sums != [(1,)]:
        raise DamageError("its contents do not match their checksum; restore it from a backup")


def _update_total(connection: sqlite3.Connection) -> None:
    connection.execute(f"UPDATE totals SET checksum = {_TOTAL}")  # noqa: S608


class TamperedValue(ValueError):
    """A sealed value was changed or moved, or the passphrase is another."""


class Sealer:
    """Seals and opens values.

    A value is bound to its `name`, so that it opens under no other. Raises SettingsError without the
    cryptography package.
    """

    def __init__(self, passphrase: str, salt: bytes) -> None:
        if missing := missing_for("policy"):
            raise SettingsError(f"an encrypted policy store needs {missing}")
        from cryptography.hazmat.primitives.ciphers.aead import AESGCM

        key = hashlib.scrypt(
            passphrase.encode(),
            salt=salt,
            n=_SCRYPT_COST,
            r=_SCRYPT_BLOCK,
            p=_SCRYPT_PARALLEL,
            maxmem=256 * _SCRYPT_COST * _SCRYPT_BLOCK,
            dklen=_KEY_BYTES,
        )
        self._cipher = AESGCM(key)

    def seal(self, value: bytes, name: str) -> bytes:
        """Return nonce and ciphertext."""
        nonce = secrets.token_bytes(_NONCE_BYTES)
        return nonce + self._cipher.encrypt(nonce, value, name.encode())

    def open(self, sealed: bytes, name: str) -> bytes:
        """Return the value. Raises TamperedValue."""
        from cryptography.exceptions import InvalidTag

        try:
            return self._cipher.decrypt(sealed[:_NONCE_BYTES], sealed[_NONCE_BYTES:], name.encode())
        except (InvalidTag, ValueError):
            raise TamperedValue(name) from None
