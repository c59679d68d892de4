"""Answers that a later request may refer to, each owned by the caller who asked: kept for a while, and no more than fits."""

import sqlite3
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from mlxctl.stores.database import Database

_MIGRATIONS = (
    """
    CREATE TABLE responses (
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        previous_id TEXT,
        body BLOB NOT NULL,
        num_bytes INTEGER NOT NULL,
        last_used REAL NOT NULL,
        PRIMARY KEY (owner, id)
    );
    CREATE INDEX responses_by_use ON responses (last_used);
    CREATE TABLE items (
        owner TEXT NOT NULL,
        response_id TEXT NOT NULL,
        position INTEGER NOT NULL,
        is_output INTEGER NOT NULL,
        id TEXT NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (owner, response_id, position),
        FOREIGN KEY (owner, response_id) REFERENCES responses (owner, id) ON DELETE CASCADE
    );
    CREATE INDEX items_by_id ON items (owner, id)
    """,
)

_ANCESTORS = """
    WITH RECURSIVE chain (id, previous_id, depth) AS (
        SELECT id, previous_id, 0 FROM responses WHERE owner = :owner AND id = :id
        UNION ALL
        SELECT responses.id, responses.previous_id, depth + 1
        FROM responses JOIN chain ON responses.owner = :owner AND responses.id = chain.previous_id
    )
    SELECT id, previous_id FROM chain ORDER BY depth DESC
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredItem:
    """One item of a conversation: its id, and its JSON as bytes that nothing here looks into."""

    id: str
    body: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredResponse:
    """An answer as it was given, what was new in its question, and the answer that the question went on from."""

    id: str
    previous_id: str | None
    body: bytes
    input: tuple[StoredItem, ...]
    output: tuple[StoredItem, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """How much is kept."""

    num_responses: int
    num_bytes: int


class ResponseStore:
    """Keeps the answers of all callers in one file, made at the first use. Nobody sees what another caller asked.

    What was not used for `ttl_seconds` is gone, and so is what was used longest ago when there are more than `max_bytes`; asking
    for a conversation uses all of it. Any thread may call; calls wait for the disk, and raise StoreError when it fails them.
    """

    def __init__(self, path: Path, *, max_bytes: int, ttl_seconds: float, now: Callable[[], float] = time.time) -> None:
        self._database = Database(path, _MIGRATIONS)
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._now = now

    def save(self, owner: str, response: StoredResponse) -> None:
        """Keep an answer, unless it alone is larger than all that is kept."""
        items = [*((item, 0) for item in response.input), *((item, 1) for item in response.output)]
        num_bytes = len(response.body) + sum(len(item.body) for item, _ in items)
        if num_bytes > self._max_bytes:
            return
        rows = [(owner, response.id, position, is_output, item.id, item.body) for position, (item, is_output) in enumerate(items)]
        with self._transaction() as connection:
            connection.execute(
                "INSERT INTO responses VALUES (?, ?, ?, ?, ?, ?)",
                (owner, response.id, response.previous_id, response.body, num_bytes, self._now()),
            )
            connection.executemany("INSERT INTO items VALUES (?, ?, ?, ?, ?, ?)", rows)
            self._make_room(connection)

    def find(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return an answer, or None when it is not kept, or not this caller's."""
        with self._transaction() as connection:
            row = connection.execute(
                "SELECT previous_id, body FROM responses WHERE owner = ? AND id = ?", (owner, response_id)
            ).fetchone()
            if row is None:
                return None
            self._touch(connection, owner, [response_id])
            return StoredResponse(
                id=response_id,
                previous_id=row[0],
                body=row[1],
                input=_items(connection, owner, response_id, is_output=False),
                output=_items(connection, owner, response_id, is_output=True),
            )

    def conversation(self, owner: str, response_id: str) -> tuple[StoredItem, ...] | None:
        """Return every item up to the end of an answer, oldest first; None when not all of it is kept any more."""
        with self._transaction() as connection:
            chain = connection.execute(_ANCESTORS, {"owner": owner, "id": response_id}).fetchall()
            if not chain or chain[0][1] is not None:
                return None
            self._touch(connection, owner, [ancestor for ancestor, _ in chain])
            return tuple(item for ancestor, _ in chain for item in _items(connection, owner, ancestor))

    def items(self, owner: str, item_ids: Collection[str]) -> dict[str, bytes]:
        """Return those of the items that are kept, by their ids."""
        found: dict[str, bytes] = {}
        with self._transaction() as connection:
            for item_id in item_ids:
                row = connection.execute("SELECT body FROM items WHERE owner = ? AND id = ?", (owner, item_id)).fetchone()
                if row is not None:
                    found[item_id] = row[0]
        return found

    def delete(self, owner: str, response_id: str) -> bool:
        """Forget an answer; says whether there was one."""
        with self._transaction() as connection:
            cursor = connection.execute("DELETE FROM responses WHERE owner = ? AND id = ?", (owner, response_id))
            return cursor.rowcount > 0

    def facts(self) -> StoreFacts:
        """Return how much is kept."""
        if self._database.is_blank:
            return StoreFacts(num_responses=0, num_bytes=0)
        with self._transaction() as connection:
            num_responses, num_bytes = connection.execute("SELECT count(*), total(num_bytes) FROM responses").fetchone()
            return StoreFacts(num_responses=num_responses, num_bytes=int(num_bytes))

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()

    @contextmanager
    def _transaction(self) -> Iterator[sqlite3.Connection]:
        """Hold the file for one transaction, without what has expired."""
        with self._database.transaction() as connection:
            connection.execute("DELETE FROM responses WHERE last_used <= ?", (self._now() - self._ttl_seconds,))
            yield connection

    def _touch(self, connection: sqlite3.Connection, owner: str, response_ids: Sequence[str]) -> None:
        now = self._now()
        rows = [(now, owner, response_id) for response_id in response_ids]
        connection.executemany("UPDATE responses SET last_used = ? WHERE owner = ? AND id = ?", rows)

    def _make_room(self, connection: sqlite3.Connection) -> None:
        (num_bytes,) = connection.execute("SELECT total(num_bytes) FROM responses").fetchone()
        rows = connection.execute("SELECT rowid, num_bytes FROM responses ORDER BY last_used, rowid")
        doomed = []
        while num_bytes > self._max_bytes:
            rowid, size = rows.fetchone()
            doomed.append((rowid,))
            num_bytes -= size
        connection.executemany("DELETE FROM responses WHERE rowid = ?", doomed)


def _items(
    connection: sqlite3.Connection, owner: str, response_id: str, *, is_output: bool | None = None
) -> tuple[StoredItem, ...]:
    rows = connection.execute(
        "SELECT id, body FROM items WHERE owner = ? AND response_id = ? AND (? IS NULL OR is_output = ?) ORDER BY position",
        (owner, response_id, is_output, is_output),
    )
    return tuple(StoredItem(id=item_id, body=body) for item_id, body in rows)
