"""The audit files that the settings name, and their records as text."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path

import msgspec

from mlxctl.cli.options import print_json, read_settings
from mlxctl.ir.errors import SettingsError, UsageError
from mlxctl.state import locations
from mlxctl.state.stores.audit_files import AuditFiles, AuditQuery, AuditRecord
from mlxctl.terminal_text import echo, escape_line


def open_files(config: Path | None) -> AuditFiles:
    """Return the audit files. Raises SettingsError."""
    settings = read_settings(config).audit
    return AuditFiles(
        settings.path or locations.audit_directory(),
        retention_days=settings.retention_days,
        max_bytes=settings.max_bytes,
    )


def find(files: AuditFiles, query: AuditQuery) -> list[AuditRecord]:
    """Return matching records, the newest first. Raises SettingsError."""
    try:
        return files.search(query)
    except OSError as error:
        raise SettingsError(f"the audit log in {str(files.directory)!r} cannot be read: {error}") from None


def show(records: Iterable[AuditRecord], *, as_json: bool) -> None:
    """Print records, as a JSON list or one line each."""
    records = list(records)
    if as_json:
        print_json(msgspec.to_builtins(records))
        return
    for record in records:
        echo(_line(record))
    if not records:
        echo("no records")


def _line(record: AuditRecord) -> str:
    at = datetime.fromtimestamp(record.time, UTC).isoformat(" ", "seconds").removesuffix("+00:00")
    details = {
        "model": record.model,
        "caller": record.caller,
        "prompt": record.prompt_tokens or None,
        "cached": record.cached_tokens or None,
        "generated": record.completion_tokens or None,
        "finish": record.finish_reason,
        "error": record.error,
        "id": record.request_id,
    }
    shown = " ".join(f"{name}={value}" for name, value in details.items() if value is not None)
    return escape_line(
        f"{at} {record.method} {record.route} {record.status} {record.duration_ms / 1000:.3f}s {shown}"
    )


def time_of(text: str | None, option: str) -> float | None:
    """Return unix seconds of an ISO 8601 time or of a number.

    A time without an offset is UTC. Raises UsageError.
    """
    if text is None:
        return None
    with suppress(ValueError):
        if isfinite(seconds := float(text)):
            return seconds
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        raise UsageError(
            f"{option} must be a time like 2026-01-31 or 2026-01-31T08:00, got {text!r}"
        ) from None
    return (at if at.tzinfo else at.replace(tzinfo=UTC)).timestamp()
