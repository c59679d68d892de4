"""Stored responses for `previous_response_id`, each owned by its caller.

A deleted response that is an ancestor of a stored one is hidden: its body is deleted, its items stay until no
stored response needs them.
"""

import sqlite3
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from mlxctl.ir.errors import StoreUnavailable
from mlxctl.ir.stored import StoredItem, StoredResponse
from mlxctl.state.stores.database import MAX_FREE_BYTES, Database
from mlxctl.state.stores.rows import check_row
from mlxctl.state.stores.steady_clock import SteadyClock

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
    """
    ALTER TABLE responses ADD COLUMN is_hidden INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE responses ADD COLUMN checksum INTEGER;
    UPDATE responses SET checksum = checksum(id, previous_id, body);
    ALTER TABLE items ADD COLUMN checksum INTEGER;
    UPDATE items SET checksum = checksum(position, is_output, id, body);
    CREATE INDEX responses_by_previous ON responses (owner, previous_id);
    CREATE INDEX responses_hidden ON responses (owner, id) WHERE is_hidden = 1;
    DROP INDEX responses_by_use;
    CREATE INDEX responses_by_use ON responses (last_used, num_bytes, is_hidden)
    """,
)

# Oldest first. A cyclic chain, possible after damage, ends at the repetition.
_ANCESTORS = """
    WITH RECURSIVE chain (id, previous_id, depth) AS (
        SELECT id, previous_id, 0 FROM responses WHERE owner = :owner AND id = :id
        UNION
        SELECT responses.id, responses.previous_id, depth + 1
        FROM responses JOIN chain ON responses.owner = :owner AND responses.id = chain.previous_id
        WHERE depth < (SELECT count(*) FROM responses)
    )
    SELECT id, previous_id FROM chain ORDER BY depth DESC
"""
_UNNEEDED = """
    DELETE FROM responses WHERE is_hidden = 1 AND NOT EXISTS (
        SELECT 1 FROM responses AS later
        WHERE later.owner = responses.owner AND later.previous_id = responses.id
    )
"""
# An empty file has some pages; with a smaller limit only contents count.
_MIN_FILE_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreFacts:
    """Number and size of stored responses."""

    num_responses: int
    num_bytes: int


class ResponseStore:
    """The responses of all callers in one SQLite file.

    It is created at the first use. A caller cannot read another caller's responses. Responses expire
    `ttl_seconds` after their last use; beyond `max_bytes` (of contents, and of the file) the least recently
    used are deleted. Using a response counts as use of its ancestors. Any thread may call; calls wait for the
    disk, and raise StoreUnavailable when it fails. Setting the machine's time during the run expires nothing,
    and a use that an earlier run noted in the future counts as one now.
    """

    def __init__(
        self,
        path: Path,
        *,
        max_bytes: int,
        ttl_seconds: float,
        now: Callable[[], float] | None = None,
    ) -> None:
        self._database = Database(path, _MIGRATIONS, is_transient=True)
        self._max_bytes = max_bytes
        self._ttl_seconds = ttl_seconds
        self._now = now or SteadyClock()

    def save(self, owner: str, response: StoredResponse, *, earlier: Sequence[StoredItem] = ()) -> None:
        """Store a response, unless it alone exceeds the limit.

        `earlier` is the conversation before it, stored with it when its previous response was deleted
        meanwhile.
        """
        if _num_bytes(response) > self._max_bytes:
            return

        def insert(connection: sqlite3.Connection) -> None:
            self._expire(connection)
            if (
                earlier
                and response.previous_id is not None
                and not _has(connection, owner, response.previous_id)
            ):
                hidden = StoredResponse(
                    id=response.previous_id, previous_id=None, body=b"", input=tuple(earlier), output=()
                )
                self._insert(connection, owner, hidden, is_hidden=True)
            self._insert(connection, owner, response)
            self._touch(connection, owner, response.id)
            self._evict(connection)

        self._database.write(insert)
        self._database.shrink()

    def find(self, owner: str, response_id: str) -> StoredResponse | None:
        """Return a response; None when missing or another caller's."""

        def read(connection: sqlite3.Connection) -> StoredResponse | None:
            row = connection.execute(
                "SELECT previous_id, body, checksum(id, previous_id, body) = checksum FROM responses"
                " WHERE owner = ? AND id = ? AND NOT is_hidden AND last_used > ?",
                (owner, response_id, self._oldest),
            ).fetchone()
            if row is None:
                return None
            check_row(row[2], f"response {response_id!r}")
            return StoredResponse(
                id=response_id,
                previous_id=row[0],
                body=row[1],
                input=_items(connection, owner, response_id, is_output=False),
                output=_items(connection, owner, response_id, is_output=True),
            )

        found = self._database.read(read)
        if found is not None:
            self._note_use(owner, response_id)
        return found

    def conversation(self, owner: str, response_id: str) -> tuple[StoredItem, ...] | None:
        """Return all items up to the end of a response, oldest first.

        None when an ancestor is missing.
        """

        def collect(connection: sqlite3.Connection) -> tuple[StoredItem, ...] | None:
            if not self._is_kept(connection, owner, response_id):
                return None
            chain = connection.execute(_ANCESTORS, {"owner": owner, "id": response_id}).fetchall()
            if chain[0][1] is not None:
                return None
            return tuple(item for ancestor, _ in chain for item in _items(connection, owner, ancestor))

        found = self._database.read(collect)
        if found is not None:
            self._note_use(owner, response_id)
        return found

    def items(self, owner: str, item_ids: Collection[str]) -> dict[str, bytes]:
        """Return the stored items with these ids."""

        def collect(connection: sqlite3.Connection) -> dict[str, bytes]:
            found: dict[str, bytes] = {}
            for item_id in item_ids:
                row = connection.execute(
                    "SELECT items.body, checksum(position, is_output, items.id, items.body) = items.checksum"
                    " FROM items JOIN responses ON responses.owner = items.owner AND responses.id = "
                    "response_id"
                    " WHERE items.owner = ? AND items.id = ? AND NOT is_hidden AND last_used > ?",
                    (owner, item_id, self._oldest),
                ).fetchone()
                if row is not None:
                    check_row(row[1], f"item {item_id!r}")
                    found[item_id] = row[0]
            return found

        return self._database.read(collect)

    def delete(self, owner: str, response_id: str) -> bool:
        """Delete a response; return whether it existed.

        Works on a full disk. Later responses can still be continued.
        """

        def forget(connection: sqlite3.Connection) -> bool:
            self._expire(connection)
            hidden = connection.execute(
                "UPDATE responses SET is_hidden = 1, body = x'', checksum = checksum(id, previous_id, x''), "
                "num_bytes ="
                " (SELECT total(length(items.body)) FROM items WHERE items.owner = responses.owner AND "
                "response_id = responses.id)"
                " WHERE owner = ? AND id = ? AND NOT is_hidden",
                (owner, response_id),
            )
            _drop_unneeded(connection)
            return hidden.rowcount > 0

        return self._database.delete(forget)

    def facts(self) -> StoreFacts:
        """Return number and size of stored responses."""
        if self._database.is_blank:
            return StoreFacts(num_responses=0, num_bytes=0)

        def count(connection: sqlite3.Connection) -> StoreFacts:
            num_responses, num_bytes = connection.execute(
                "SELECT total(NOT is_hidden), total(num_bytes) FROM responses WHERE last_used > ?",
                (self._oldest,),
            ).fetchone()
            return StoreFacts(num_responses=int(num_responses), num_bytes=int(num_bytes))

        return self._database.read(count)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()

    @property
    def _oldest(self) -> float:
        """Return the time at or before which a last use has expired."""
        return self._now() - self._ttl_seconds

    def _insert(
        self, connection: sqlite3.Connection, owner: str, response: StoredResponse, *, is_hidden: bool = False
    ) -> None:
        connection.execute(
            "INSERT INTO responses (owner, id, previous_id, body, num_bytes, last_used, is_hidden, checksum)"
            " VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, checksum(?2, ?3, ?4))",
            (
                owner,
                response.id,
                response.previous_id,
                response.body,
                _num_bytes(response),
                self._now(),
                is_hidden,
            ),
        )
        items = [*((item, 0) for item in response.input), *((item, 1) for item in response.output)]
        connection.executemany(
            "INSERT INTO items VALUES (?1, ?2, ?3, ?4, ?5, ?6, checksum(?3, ?4, ?5, ?6))",
            [
                (owner, response.id, position, is_output, item.id, item.body)
                for position, (item, is_output) in enumerate(items)
            ],
        )

    def _is_kept(self, connection: sqlite3.Connection, owner: str, response_id: str) -> bool:
        query = "SELECT 1 FROM responses WHERE owner = ? AND id = ? AND NOT is_hidden AND last_used > ?"
        return connection.execute(query, (owner, response_id, self._oldest)).fetchone() is not None

    def _expire(self, connection: sqlite3.Connection) -> None:
        now = self._now()
        connection.execute("UPDATE responses SET last_used = ? WHERE last_used > ?", (now, now))
        connection.execute("DELETE FROM responses WHERE last_used <= ?", (self._oldest,))
        _drop_unneeded(connection)

    def _note_use(self, owner: str, response_id: str) -> None:
        """Update the last use of a response and its ancestors.

        A failure is ignored, so that reading succeeds.
        """

        with suppress(StoreUnavailable):
            self._database.write(lambda connection: self._touch(connection, owner, response_id))

    def _touch(self, connection: sqlite3.Connection, owner: str, response_id: str) -> None:
        chain = connection.execute(_ANCESTORS, {"owner": owner, "id": response_id}).fetchall()
        now = self._now()
        rows = [(now, owner, ancestor) for ancestor, _ in chain]
        connection.executemany("UPDATE responses SET last_used = ? WHERE owner = ? AND id = ?", rows)

    def _evict(self, connection: sqlite3.Connection) -> None:
        """Delete least recently used responses until contents and file fit the limit."""
        (num_bytes,) = connection.execute("SELECT total(num_bytes) FROM responses").fetchone()
        most_file_bytes = max(self._max_bytes, _MIN_FILE_BYTES) - MAX_FREE_BYTES
        num_excess = max(num_bytes - self._max_bytes, _used_file_bytes(connection) - most_file_bytes)
        while num_excess > 0:
            rows = connection.execute(
                "SELECT rowid, num_bytes FROM responses ORDER BY last_used, rowid"
            ).fetchall()
            doomed = []
            while num_excess > 0 and rows:
                rowid, size = rows.pop(0)
                doomed.append((rowid,))
                num_excess -= max(size, 1)
            if not doomed:
                return
            connection.executemany("DELETE FROM responses WHERE rowid = ?", doomed)
            num_excess = _used_file_bytes(connection) - most_file_bytes
        _drop_unneeded(connection)


def _num_bytes(response: StoredResponse) -> int:
    return len(response.body) + sum(len(item.body) for item in (*response.input, *response.output))


def _has(connection: sqlite3.Connection, owner: str, response_id: str) -> bool:
    """Whether there is such a row, hidden or not."""
    query = "SELECT 1 FROM responses WHERE owner = ? AND id = ?"
    return connection.execute(query, (owner, response_id)).fetchone() is not None


def _used_file_bytes(connection: sqlite3.Connection) -> int:
    """Return the size of the file without free pages."""
    num_pages, num_free, page_bytes = (
        connection.execute(f"PRAGMA {fact}").fetchone()[0]
        for fact in ("page_count", "freelist_count", "page_size")
    )
    return int((num_pages - num_free) * page_bytes)


def _drop_unneeded(connection: sqlite3.Connection) -> None:
    """Delete hidden responses without stored descendants."""
    while connection.execute(_UNNEEDED).rowcount:
        pass


def _items(
    connection: sqlite3.Connection, owner: str, response_id: str, *, is_output: bool | None = None
) -> tuple[StoredItem, ...]:
    rows = connection.execute(
        "SELECT id, body, checksum(position, is_output, id, body) = checksum FROM items"
        " WHERE owner = ? AND response_id = ? AND (? IS NULL OR is_output = ?) ORDER BY position",
        (owner, response_id, is_output, is_output),
    ).fetchall()
    for item_id, _, is_sound in rows:
        check_row(is_sound, f"item {item_id!r} of response {response_id!r}")
    return tuple(StoredItem(id=item_id, body=body) for item_id, body, _ in rows)
