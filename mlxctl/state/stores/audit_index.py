"""Index of the audit log: callers, models and statuses of full segments.

It is derived from the segments. One that is missing or damaged is built again; without a usable one, searches
read all segments.
"""

import logging
import sqlite3
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import msgspec

from mlxctl.ir.errors import StoreUnavailable
from mlxctl.state.stores.database import Database
from mlxctl.state.stores.rows import check_row

INDEX_FILE = "index.sqlite"
MAX_GROUPS = 1024
"""Most combinations of caller, model and status of one segment; a segment with more is always read."""

_MIGRATIONS = (
    """
    CREATE TABLE segments (
        name TEXT PRIMARY KEY,
        num_bytes INTEGER NOT NULL,
        first_id INTEGER NOT NULL,
        first_time REAL NOT NULL,
        last_time REAL NOT NULL,
        groups BLOB NOT NULL,
        checksum INTEGER NOT NULL
    ) WITHOUT ROWID
    """,
)
_COLUMNS = "name, num_bytes, first_id, first_time, last_time, groups"

Group = tuple[str | None, str | None, int]
"""Caller, model and status."""

Value = TypeVar("Value")

_log = logging.getLogger(__name__)
_GROUPS = msgspec.json.Decoder(frozenset[Group] | None)


@dataclass(frozen=True, slots=True, kw_only=True)
class SegmentSummary:
    """What a full segment of `num_bytes` has.

    `groups` is None where there are too many of them.
    """

    name: str
    num_bytes: int
    first_id: int
    first_time: float
    last_time: float
    groups: frozenset[Group] | None


class AuditIndex:
    """Summaries of the full segments of one directory. Any thread."""

    def __init__(self, directory: Path) -> None:
        self._database = Database(directory / INDEX_FILE, _MIGRATIONS, is_transient=True)
        self._is_failing = False

    def summaries(self) -> Mapping[str, SegmentSummary]:
        """Return the summaries by the name of their segment."""
        if self._database.is_blank:
            return {}
        return self._tried(self._read, {})

    def add(self, summaries: Iterable[SegmentSummary], *, existing: Iterable[str]) -> None:
        """Add summaries, and delete those of deleted segments."""
        self._tried(lambda: self._add(summaries, frozenset(existing)), None)

    def _add(self, summaries: Iterable[SegmentSummary], existing: frozenset[str]) -> None:
        marks = ", ".join("?" * 6)

        def update(connection: sqlite3.Connection) -> None:
            known = {name for (name,) in connection.execute("SELECT name FROM segments")}
            connection.executemany(
                "DELETE FROM segments WHERE name = ?", [(name,) for name in known - existing]
            )
            for summary in summaries:
                values = (
                    summary.name,
                    summary.num_bytes,
                    summary.first_id,
                    summary.first_time,
                    summary.last_time,
                    msgspec.json.encode(summary.groups),
                )
                connection.execute(
                    f"INSERT OR REPLACE INTO segments VALUES ({marks}, checksum({marks}))",  # noqa: S608 -- only marks
                    (*values, *values),
                )

        self._database.write(update)

    def _read(self) -> Mapping[str, SegmentSummary]:
        def read(connection: sqlite3.Connection) -> Mapping[str, SegmentSummary]:
            rows = connection.execute(
                f"SELECT {_COLUMNS}, checksum({_COLUMNS}) = checksum FROM segments"  # noqa: S608 -- ours
            ).fetchall()
            return {row[0]: _summary(row) for row in rows}

        return self._database.read(read)

    def _tried(self, action: Callable[[], Value], otherwise: Value) -> Value:
        """Run an action; a failure is logged once."""
        try:
            result = action()
        except StoreUnavailable as error:
            if not self._is_failing:
                _log.warning("searches of the audit log are slow, its index cannot be used: %s", error)
            self._is_failing = True
            return otherwise
        finally:
            # Searches are rare, and callers need not close the index.
            self._database.close()
        self._is_failing = False
        return result


def _summary(row: tuple[Any, ...]) -> SegmentSummary:
    *values, groups, is_sound = row
    check_row(is_sound, f"audit segment {row[0]!r}")
    named = dict(zip(_COLUMNS.split(", "), (*values, _GROUPS.decode(groups)), strict=True))
    return SegmentSummary(**named)
