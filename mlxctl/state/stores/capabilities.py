"""Probe results by model fingerprint, with a row per question."""

import sqlite3
from dataclasses import replace
from pathlib import Path

import msgspec

from mlxctl.state.stores.damage import DamageError
from mlxctl.state.stores.database import Database
from mlxctl.state.stores.probe_findings import QUESTIONS, Finding, ProbeRecord
from mlxctl.state.stores.rows import convert_row

_MIGRATIONS = (
    """
    CREATE TABLE probes (
        fingerprint TEXT PRIMARY KEY,
        model TEXT NOT NULL,
        path TEXT NOT NULL,
        probed_at REAL NOT NULL,
        round INTEGER NOT NULL,
        duration_seconds REAL NOT NULL,
        versions TEXT NOT NULL
    );
    CREATE TABLE findings (
        fingerprint TEXT NOT NULL REFERENCES probes (fingerprint) ON DELETE CASCADE,
        position INTEGER NOT NULL,
        question TEXT NOT NULL,
        verdict TEXT NOT NULL CHECK (verdict IN ('yes', 'no', 'unknown')),
        reason TEXT NOT NULL,
        value TEXT NOT NULL,
        exchanges TEXT NOT NULL,
        has_failed INTEGER NOT NULL CHECK (NOT has_failed OR verdict = 'unknown'),
        PRIMARY KEY (fingerprint, question)
    )
    """,
)


class CapabilityStore:
    """Probe results in one file, created when the first is saved.

    Any thread may call; calls wait for the disk, and raise StoreError when it fails or a newer mlxctl wrote
    the file.
    """

    def __init__(self, path: Path) -> None:
        self._database = Database(path, _MIGRATIONS)

    def save(self, record: ProbeRecord) -> ProbeRecord:
        """Store the record in place of the model's older one.

        Return what is stored. A question that failed or was skipped this time keeps its stored finding.
        """

        def replace_record(connection: sqlite3.Connection) -> ProbeRecord:
            kept = replace(record, findings=_settled(record, _find(connection, record.fingerprint)))
            connection.execute("DELETE FROM probes WHERE fingerprint = ?", (kept.fingerprint,))
            connection.execute("INSERT INTO probes VALUES (?, ?, ?, ?, ?, ?, ?)", _probe_row(kept))
            rows = [
                (kept.fingerprint, position, *_finding_row(finding))
                for position, finding in enumerate(kept.findings)
            ]
            connection.executemany("INSERT INTO findings VALUES (?, ?, ?, ?, ?, ?, ?, ?)", rows)
            return kept

        return self._database.write(replace_record)

    def find(self, fingerprint: str) -> ProbeRecord | None:
        """Return the record of this fingerprint; None if never probed."""
        if self._database.is_blank:
            return None
        return self._database.read(lambda connection: _find(connection, fingerprint))

    def has_records(self) -> bool:
        """Whether any model was probed."""
        if self._database.is_blank:
            return False
        return self._database.read(
            lambda connection: connection.execute("SELECT 1 FROM probes LIMIT 1").fetchone() is not None
        )

    def version(self) -> object:
        """Return a value that changes with every record that is saved."""
        if self._database.is_blank:
            return None
        return self._database.read(
            lambda connection: connection.execute("SELECT fingerprint, probed_at FROM probes").fetchall()
        )

    def close(self) -> None:
        """Close the file. Idempotent."""
        self._database.close()


def _settled(record: ProbeRecord, before: ProbeRecord | None) -> tuple[Finding, ...]:
    known = {finding.question: finding for finding in before.findings} if before else {}
    new = {
        finding.question: finding
        for finding in record.findings
        if not (finding.has_failed and finding.question in known)
    }
    settled = {**known, **new}
    return tuple(settled[question] for question in QUESTIONS if question in settled)


def _find(connection: sqlite3.Connection, fingerprint: str) -> ProbeRecord | None:
    row = connection.execute("SELECT * FROM probes WHERE fingerprint = ?", (fingerprint,)).fetchone()
    if row is None:
        return None
    _, model, path, probed_at, number, duration_seconds, versions = row
    columns = "question, verdict, reason, value, exchanges, has_failed"
    rows = connection.execute(
        f"SELECT {columns} FROM findings WHERE fingerprint = ? ORDER BY position",  # noqa: S608
        (fingerprint,),
    )
    values = {
        "fingerprint": fingerprint,
        "model": model,
        "path": path,
        "probed_at": probed_at,
        "round": number,
        "duration_seconds": duration_seconds,
        "versions": _read_json(versions),
        "findings": [_finding_values(row) for row in rows],
    }
    return convert_row(values, ProbeRecord, f"the record of {fingerprint}")


def _finding_values(row: tuple[str, str, str, str, str, int]) -> dict[str, object]:
    question, verdict, reason, value, exchanges, has_failed = row
    return {
        "question": question,
        "verdict": verdict,
        "reason": reason,
        "value": _read_json(value),
        "exchanges": _read_json(exchanges),
        "has_failed": bool(has_failed),
    }


def _read_json(text: str) -> object:
    try:
        return msgspec.json.decode(text)
    except (msgspec.MsgspecError, TypeError) as error:
        raise DamageError(f"a record is invalid: {error}") from error


def _probe_row(record: ProbeRecord) -> tuple[str, str, str, float, int, float, str]:
    versions = _json(dict(record.versions))
    return (
        record.fingerprint,
        record.model,
        record.path,
        record.probed_at,
        record.round,
        record.duration_seconds,
        versions,
    )


def _finding_row(finding: Finding) -> tuple[str, str, str, str, str, bool]:
    value, exchanges = _json(dict(finding.value)), _json(finding.exchanges)
    return finding.question, finding.verdict, finding.reason, value, exchanges, finding.has_failed


def _json(value: object) -> str:
    return msgspec.json.encode(value).decode()
