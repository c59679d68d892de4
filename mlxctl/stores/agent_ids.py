"""The ids of the agents that are kept here, for a shell that completes them: read and never written, whoever
else writes.
"""

# PERF: not by way of `database`, whose imports take longer than the whole answer may.
import sqlite3
from contextlib import closing
from pathlib import Path

_MAX_IDS = 1000
_LOCK_SECONDS = 0.05


def read_agent_ids(file: Path) -> list[str]:
    """Return the ids of all callers' agents in the file of an AgentStore, sorted; none where there is no such
    file.
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
