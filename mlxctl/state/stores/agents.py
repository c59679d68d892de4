"""Agents: stored conversations, each owned by the caller that created it."""

import sqlite3
import time
from collections.abc import Callable, Sequence
from contextlib import closing
from pathlib import Path

from mlxctl.ir.errors import Conflict, InvalidRequest
from mlxctl.ir.stored import StoredAgent
from mlxctl.state.stores.database import Database, MemoryDatabase
from mlxctl.state.stores.rows import check_row

# A TAB does not wait longer for a lock.
_COMPLETION_SECONDS = 0.05
_MIGRATIONS = (
    """
    CREATE TABLE agents (
        number INTEGER PRIMARY KEY AUTOINCREMENT,
        owner TEXT NOT NULL,
        id TEXT NOT NULL,
        model TEXT NOT NULL,
        settings BLOB NOT NULL,
        created REAL NOT NULL,
        last_access REAL NOT NULL,
        revision INTEGER NOT NULL,
        UNIQUE (owner, id)
    );
    CREATE TABLE messages (
        agent INTEGER NOT NULL REFERENCES agents (number) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        body BLOB NOT NULL,
        PRIMARY KEY (agent, position)
    )
    """,
    """
    ALTER TABLE agents ADD COLUMN checksum INTEGER;
    UPDATE agents SET checksum = checksum(number, owner, id, model, settings, created, last_access, revision);
    ALTER TABLE messages ADD COLUMN checksum INTEGER;
    UPDATE messages SET checksum = checksum(position, body)
    """,
)

_COLUMNS = """
    agents.number, id, model, settings, created, last_access, revision,
    (SELECT count(*) FROM messages WHERE agent = agents.number),
    (SELECT total(length(body)) FROM messages WHERE agent = agents.number),
    checksum(number, owner, id, model, settings, created, last_access, revision) = checksum
"""


class AgentStore:
    """The agents of all callers in one SQLite file, or in memory.

    It is created at the first use. A caller cannot read another caller's agents. Any thread may call; calls
    wait for the disk, and raise StoreError when it fails.
    """

    def __init__(
        self,
        path: Path | None,
        *,
        max_agents: int,
        ttl_seconds: float | None = None,
        max_bytes: int | None = None,
        now: Callable[[], float] = time.time,
    ) -> None:
        """Without a `path` the agents are in memory.

        Agents that are not used for `ttl_seconds` are deleted, as are the least recently used ones beyond
        `max_bytes` of messages.
        """
        self._database = (
            MemoryDatabase("agents in memory", _MIGRATIONS) if path is None else Database(path, _MIGRATIONS)
        )
        self._max_agents = max_agents
        self._ttl_seconds = ttl_seconds
        self._max_bytes = max_bytes
        self._now = now

    def create(self, owner: str, agent_id: str, *, model: str, settings: bytes) -> StoredAgent:
        """Create an agent with an empty history.

        Raises Conflict when the id is taken, InvalidRequest at the limit of agents.
        """

        def create(connection: sqlite3.Connection) -> StoredAgent:
            self._delete_expired(connection)
            if _find(connection, owner, agent_id) is not None:
                raise Conflict(
                    f"an agent with the id {agent_id!r} exists already; choose another id, or delete it",
                    param="id",
                )
            (num_agents,) = connection.execute(
                "SELECT count(*) FROM agents WHERE owner = ?", (owner,)
            ).fetchone()
            if num_agents >= self._max_agents:
                raise InvalidRequest(
                    f"there are {num_agents} agents already, which is the limit; delete one",
                    code="too_many_agents",
                )
            now = self._now()
            connection.execute(
                "INSERT INTO agents (owner, id, model, settings, created, last_access, revision) VALUES (?, "
                "?, ?, ?, ?, ?, 0)",
                (owner, agent_id, model, settings, now, now),
            )
            return _update_checksum(connection, owner, agent_id)

        return self._database.write(create)

    def find(self, owner: str, agent_id: str) -> StoredAgent | None:
        """Return an agent of this owner.

        None when it does not exist or is another caller's.
        """
        return self._database.read(lambda connection: _find(connection, owner, agent_id))

    def page(self, owner: str, *, after: str | None, limit: int) -> tuple[tuple[StoredAgent, ...], bool]:
        """Return a page of agents, and whether there are more.

        Up to `limit` agents after the id `after`, oldest first. Raises InvalidRequest when there is no agent
        `after`.
        """

        def read_page(connection: sqlite3.Connection) -> tuple[tuple[StoredAgent, ...], bool]:
            start = 0
            if after is not None:
                last = _find(connection, owner, after)
                if last is None:
                    raise InvalidRequest(
                        f"after is {after!r}, which is not the id of an agent", param="after"
                    )
                start = last.number
            rows = connection.execute(
                f"SELECT {_COLUMNS} FROM agents WHERE owner = ? AND number > ? ORDER BY number LIMIT ?",  # noqa: S608 -- ours
                (owner, start, limit + 1),
            ).fetchall()
            return tuple(_agent(row) for row in rows[:limit]), len(rows) > limit

        return self._database.read(read_page)

    def messages(
        self, agent: StoredAgent, *, after: int = -1, limit: int = -1
    ) -> tuple[tuple[int, bytes], ...]:
        """Return messages after a position, each with its position.

        In order; `limit` -1 is all. Raises Conflict when the agent was deleted, or its file.
        """

        def read(connection: sqlite3.Connection) -> tuple[tuple[int, bytes], ...]:
            query = "SELECT 1 FROM agents WHERE number = ? AND id = ? AND created = ?"
            if connection.execute(query, _identity(agent)).fetchone() is None:
                raise Conflict(f"agent {agent.id!r} was deleted while its messages were read")
            return _messages(connection, agent.number, after=after, limit=limit)

        return self._database.read(read)

    def count(self) -> int:
        """Return the number of agents of all callers."""
        if self._database.is_blank:
            return 0

        def count(connection: sqlite3.Connection) -> int:
            num_agents: int
            (num_agents,) = connection.execute("SELECT count(*) FROM agents").fetchone()
            return num_agents

        return self._database.read(count)

    def begin_turn(self, owner: str, agent_id: str) -> tuple[StoredAgent, tuple[bytes, ...]] | None:
        """Return an agent with its history, and update its last use.

        None if missing.
        """

        def begin(connection: sqlite3.Connection) -> tuple[StoredAgent, tuple[bytes, ...]] | None:
            self._delete_expired(connection)
            agent = _find(connection, owner, agent_id)
            if agent is None:
                return None
            connection.execute(
                "UPDATE agents SET last_access = ? WHERE number = ?", (self._now(), agent.number)
            )
            agent = _update_checksum(connection, owner, agent_id)
            return agent, tuple(body for _, body in _messages(connection, agent.number))

        return self._database.write(begin)

    def end_turn(self, agent: StoredAgent, bodies: Sequence[bytes], *, model: str) -> None:
        """Append messages to the history that the turn began with.

        A model set meanwhile stays, else `model` is stored. Raises Conflict when the history has changed or
        the agent was deleted.
        """

        def append(connection: sqlite3.Connection) -> None:
            changed = connection.execute(
                "UPDATE agents SET revision = revision + 1, last_access = ?, model = iif(model = ?, ?, model)"
                " WHERE number = ? AND id = ? AND created = ? AND revision = ?",
                (self._now(), agent.model, model, *_identity(agent), agent.revision),
            )
            if not changed.rowcount:
                raise Conflict(
                    f"agent {agent.id!r} was reset or deleted during the turn; the answer is not stored"
                )
            _seal(connection, agent.number)
            for position, body in enumerate(bodies, start=agent.num_messages):
                connection.execute(
                    "INSERT INTO messages VALUES (?, ?, ?, checksum(?, ?))",
                    (agent.number, position, body, position, body),
                )
            self._delete_oldest(connection)

        self._database.write(append)

    def change(
        self, owner: str, agent_id: str, *, model: str | None, settings: Callable[[bytes], bytes]
    ) -> StoredAgent | None:
        """Update settings and, if given, the model.

        None if the agent is missing. The history stays, and a running turn continues with its old settings.
        """

        def update(connection: sqlite3.Connection) -> StoredAgent | None:
            agent = _find(connection, owner, agent_id)
            if agent is None:
                return None
            connection.execute(
                "UPDATE agents SET model = ?, settings = ?, last_access = ? WHERE number = ?",
                (model or agent.model, settings(agent.settings), self._now(), agent.number),
            )
            return _update_checksum(connection, owner, agent_id)

        return self._database.write(update)

    def reset(self, owner: str, agent_id: str) -> StoredAgent | None:
        """Delete an agent's history; None if missing. Works on a full disk."""

        def forget(connection: sqlite3.Connection) -> StoredAgent | None:
            agent = _find(connection, owner, agent_id)
            if agent is None:
                return None
            connection.execute("DELETE FROM messages WHERE agent = ?", (agent.number,))
            connection.execute(
                "UPDATE agents SET revision = revision + 1, last_access = ? WHERE number = ?",
                (self._now(), agent.number),
            )
            return _update_checksum(connection, owner, agent_id)

        return self._database.delete(forget)

    def delete(self, owner: str, agent_id: str) -> bool:
        """Delete an agent; return whether it existed. Works on a full disk."""
        query = "DELETE FROM agents WHERE owner = ? AND id = ?"
        return self._database.delete(
            lambda connection: connection.execute(query, (owner, agent_id)).rowcount > 0
        )

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()

    def _delete_expired(self, connection: sqlite3.Connection) -> None:
        if self._ttl_seconds is not None:
            oldest = self._now() - self._ttl_seconds
            connection.execute("DELETE FROM agents WHERE last_access < ?", (oldest,))

    def _delete_oldest(self, connection: sqlite3.Connection) -> None:
        """Delete the least recently used agents beyond `max_bytes`.

        The last one stays.
        """
        size = "SELECT total(length(body)), (SELECT count(*) FROM agents) FROM messages"
        while self._max_bytes is not None:
            num_bytes, num_agents = connection.execute(size).fetchone()
            if num_bytes <= self._max_bytes or num_agents < 2:
                return
            connection.execute(
                "DELETE FROM agents WHERE number = (SELECT number FROM agents ORDER BY last_access LIMIT 1)"
            )


def _identity(agent: StoredAgent) -> tuple[int, str, float]:
    """Return the values that identify an agent.

    Numbers begin again in a file that replaces a deleted one.
    """
    return agent.number, agent.id, agent.created


def _find(connection: sqlite3.Connection, owner: str, agent_id: str) -> StoredAgent | None:
    query = f"SELECT {_COLUMNS} FROM agents WHERE owner = ? AND id = ?"  # noqa: S608 -- the columns are ours
    row = connection.execute(query, (owner, agent_id)).fetchone()
    return None if row is None else _agent(row)


def _seal(connection: sqlite3.Connection, number: int) -> None:
    columns = "number, owner, id, model, settings, created, last_access, revision"
    connection.execute((f"UPDATE agents SET checksum = checksum({columns}) WHERE number = ?"), (number,))  # noqa: S608 -- ours


def _update_checksum(connection: sqlite3.Connection, owner: str, agent_id: str) -> StoredAgent:
    """Update the checksum of a created or changed agent and return it."""
    query = "SELECT number FROM agents WHERE owner = ? AND id = ?"
    _seal(connection, *connection.execute(query, (owner, agent_id)).fetchone())
    agent = _find(connection, owner, agent_id)
    assert agent is not None, "it was there in the same transaction"
    return agent


def _messages(
    connection: sqlite3.Connection, agent: int, *, after: int = -1, limit: int = -1
) -> tuple[tuple[int, bytes], ...]:
    rows = connection.execute(
        "SELECT position, body, checksum(position, body) = checksum FROM messages"
        " WHERE agent = ? AND position > ? ORDER BY position LIMIT ?",
        (agent, after, limit),
    ).fetchall()
    for position, _, is_sound in rows:
        check_row(is_sound, f"message {position} of agent number {agent}")
    return tuple((position, body) for position, body, _ in rows)


def _agent(row: tuple[int, str, str, bytes, float, float, int, int, float, int]) -> StoredAgent:
    number, agent_id, model, settings, created, last_access, revision, num_messages, num_bytes, is_sound = row
    check_row(is_sound, f"agent number {number}")
    return StoredAgent(
        number=number,
        id=agent_id,
        model=model,
        settings=settings,
        created=created,
        last_access=last_access,
        revision=revision,
        num_messages=num_messages,
        num_bytes=int(num_bytes),
    )


def read_agent_ids(file: Path) -> list[str]:
    """Return at most 1000 ids in the file of an AgentStore, sorted.

    For shell completion: writes nothing, and is empty when the file is missing, locked or damaged.
    """
    query = "SELECT DISTINCT id FROM agents ORDER BY id LIMIT 1000"
    try:
        uri = f"{file.absolute().as_uri()}?mode=ro"
        with closing(sqlite3.connect(uri, uri=True, timeout=_COMPLETION_SECONDS)) as connection:
            return [found for (found,) in connection.execute(query)]
    except (sqlite3.Error, UnicodeError, MemoryError):
        return []
