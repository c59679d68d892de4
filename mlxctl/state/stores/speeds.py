"""Measured speeds by model fingerprint and machine."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path

from mlxctl.state.stores.database import Database
from mlxctl.state.stores.rows import check_row, convert_row

_MIGRATIONS = (
    """
    CREATE TABLE speeds (
        fingerprint TEXT NOT NULL,
        machine TEXT NOT NULL,
        model TEXT NOT NULL,
        decode_tokens_per_second REAL NOT NULL,
        prompt_tokens_per_second REAL,
        context_tokens INTEGER NOT NULL,
        measured_at REAL NOT NULL,
        version TEXT NOT NULL,
        checksum INTEGER NOT NULL,
        PRIMARY KEY (fingerprint, machine)
    )
    """,
)
_MAX_ROWS = 10_000
_COLUMNS = (
    "fingerprint, machine, model, decode_tokens_per_second, prompt_tokens_per_second, context_tokens, "
    "measured_at, version"
)


@dataclass(frozen=True, slots=True, kw_only=True)
class MeasuredSpeed:
    """The speed of one stream, as `mlxctl bench throughput` measured it.

    `context_tokens` is the length of the prompt whose prefill was measured; `measured_at` is in unix seconds.
    """

    fingerprint: str
    machine: str
    model: str
    decode_tokens_per_second: float
    prompt_tokens_per_second: float | None
    context_tokens: int
    measured_at: float
    version: str


class SpeedStore:
    """Measured speeds in one SQLite file, created when the first is saved.

    Any thread may call; calls wait for the disk, and raise StoreError when it fails.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _MIGRATIONS)

    def save(self, speed: MeasuredSpeed) -> None:
        """Store the speed in place of an older one.

        The oldest beyond a limit are deleted.
        """
        values = (
            speed.fingerprint,
            speed.machine,
            speed.model,
            speed.decode_tokens_per_second,
            speed.prompt_tokens_per_second,
            speed.context_tokens,
            speed.measured_at,
            speed.version,
        )
        marks = ", ".join("?" * len(values))

        def replace(connection: sqlite3.Connection) -> None:
            connection.execute(
                f"INSERT OR REPLACE INTO speeds VALUES ({marks}, checksum({marks}))",  # noqa: S608 -- only marks
                (*values, *values),
            )
            connection.execute(
                "DELETE FROM speeds WHERE rowid NOT IN (SELECT rowid FROM speeds ORDER BY measured_at DESC"
                " LIMIT ?)",
                (_MAX_ROWS,),
            )

        self._database.write(replace)

    def find(self, fingerprint: str, machine: str) -> MeasuredSpeed | None:
        """Return the speed of a model on a machine.

        None if it was never measured.
        """
        if self._database.is_blank:
            return None

        def read(connection: sqlite3.Connection) -> MeasuredSpeed | None:
            row = connection.execute(
                f"SELECT {_COLUMNS}, checksum({_COLUMNS}) = checksum FROM speeds"  # noqa: S608 -- ours
                " WHERE fingerprint = ? AND machine = ?",
                (fingerprint, machine),
            ).fetchone()
            if row is None:
                return None
            *values, is_sound = row
            check_row(is_sound, f"the speed of model {fingerprint[:12]}")
            named = dict(zip(_COLUMNS.split(", "), values, strict=True))
            return convert_row(named, MeasuredSpeed, f"the speed of model {fingerprint[:12]}")

        return self._database.read(read)

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()
