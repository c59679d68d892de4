"""Chat sessions of the terminal, to search and continue.

Knows no message formats.
"""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from mlxctl.state.stores.database import Database
from mlxctl.state.stores.rows import convert_row

MAX_SESSIONS = 1_000
"""Stored sessions; the least recently used is deleted first."""

_MIGRATIONS = (
    """
    CREATE TABLE sessions (
        id TEXT PRIMARY KEY,
        title TEXT NOT NULL,
        model TEXT NOT NULL,
        started_at REAL NOT NULL,
        used_at REAL NOT NULL,
        num_messages INTEGER NOT NULL,
        text TEXT NOT NULL,
        body BLOB NOT NULL
    );
    CREATE INDEX sessions_by_use ON sessions (used_at)
    """,
)
_SUMMARY = "id, title, model, started_at, used_at, num_messages"


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSummary:
    """A list entry: title, model and times (unix seconds)."""

    id: str
    title: str
    model: str
    started_at: float
    used_at: float
    num_messages: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Session:
    """A chat: `text` for searches, `body` as opaque JSON."""

    summary: SessionSummary
    text: str
    body: bytes


class SessionStore:
    """The last `max_sessions` chats in one SQLite file.

    It is created at the first save. Any thread may call; calls wait for the disk, and raise StoreError when
    it fails.
    """

    def __init__(self, path: Path, *, max_sessions: int = MAX_SESSIONS) -> None:
        self._database = Database(path, _MIGRATIONS)
        self._max_sessions = max_sessions

    def save(self, session: Session) -> None:
        """Store the chat in place of its older version."""
        summary = session.summary
        row = (
            summary.id,
            summary.title,
            summary.model,
            summary.started_at,
            summary.used_at,
            summary.num_messages,
            session.text,
            session.body,
        )

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute("INSERT OR REPLACE INTO sessions VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
            connection.execute(
                "DELETE FROM sessions WHERE id NOT IN (SELECT id FROM sessions ORDER BY used_at DESC LIMIT "
                "?)",
                (self._max_sessions,),
            )

        self._database.write(replace)

    def search(self, words: str = "", *, limit: int = MAX_SESSIONS) -> tuple[SessionSummary, ...]:
        """Return chats with all of the words, most recently used first.

        All without words.
        """
        if self._database.is_blank:
            return ()
        patterns = [f"%{_escaped(word)}%" for word in words.split()]
        where = "".join(" AND (title || ' ' || text) LIKE ? ESCAPE '\\'" for _ in patterns)
        query = f"SELECT {_SUMMARY} FROM sessions WHERE 1{where} ORDER BY used_at DESC LIMIT ?"  # noqa: S608

        def list_chats(connection: sqlite3.Connection) -> tuple[SessionSummary, ...]:
            return tuple(_summary(row) for row in connection.execute(query, (*patterns, limit)))

        return self._database.read(list_chats)

    def find(self, chat_id: str) -> Session | None:
        """Return the chat whose id has this prefix.

        None for none or several.
        """
        if self._database.is_blank or not chat_id:
            return None
        query = f"SELECT {_SUMMARY}, text, body FROM sessions WHERE id LIKE ? ESCAPE '\\' LIMIT 2"  # noqa: S608

        def read(connection: sqlite3.Connection) -> Session | None:
            rows = connection.execute(query, (f"{_escaped(chat_id)}%",)).fetchall()
            if len(rows) != 1:
                return None
            text, body = convert_row(rows[0][6:], tuple[str, bytes], f"chat {chat_id!r}")
            return Session(summary=_summary(rows[0][:6]), text=text, body=body)

        return self._database.read(read)

    def delete(self, chat_id: str) -> None:
        """Delete a chat, if stored. Works on a full disk."""
        self._database.delete(
            lambda connection: connection.execute("DELETE FROM sessions WHERE id = ?", (chat_id,))
        )

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()


def _summary(row: tuple[object, ...]) -> SessionSummary:
    values = convert_row(row, tuple[str, str, str, float, float, int], "a chat in the list")
    chat_id, title, model, started_at, used_at, num_messages = values
    return SessionSummary(
        id=chat_id,
        title=title,
        model=model,
        started_at=started_at,
        used_at=used_at,
        num_messages=num_messages,
    )


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")
