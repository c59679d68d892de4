"""Ids of stored agents for shell completion, read-only."""

# PERF: a TAB must be quick, and the imports of `database` take longer than this query.
import sqlite3
from contextlib import closing
from pathlib import Path

_MAX_IDS = 1000
_LOCK_SECONDS = 0.05


def read_agent_ids(file: Path) -> list[str]:
    """Return all agent ids in the file of an AgentStore, sorted.

    Empty when the file is missing, locked or damaged. At most _MAX_IDS.
    """
    try:
        with closing(
            sqlite3.connect(f"{file.absolute().as_uri()}?mode=ro", uri=True, timeout=_LOCK_SECONDS)
        ) as connection:
            return [
                found
                for (found,) in connection.execute(
                    "SELECT DISTINCT id FROM agents ORDER BY id LIMIT ?", (_MAX_IDS,)
                )
            ]
    except (sqlite3.Error, UnicodeError, MemoryError):
        return []
