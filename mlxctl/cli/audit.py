"""`mlxctl audit`: the audit log of this machine."""

from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from math import isfinite
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from mlxctl.cli.commands import group
from mlxctl.cli.error_reports import report_errors
from mlxctl.cli.options import AsJson, ConfigFile, print_json, read_settings
from mlxctl.cli.parameters import Option
from mlxctl.ir.errors import SettingsError, UsageError
from mlxctl.terminal_text import echo, escape_line

if TYPE_CHECKING:
    from mlxctl.state.stores.audit_files import AuditFiles, AuditQuery, AuditRecord

app = group("audit", example="mlxctl audit tail")


@app.command(short_help="Show the last audit records.", epilog="Example: mlxctl audit tail --lines 50")
def tail(
    lines: Annotated[int, Option("--lines", "-n", min=1, max=1000, help="Number of records.")] = 20,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Show the last audit records, the newest last."""
    with report_errors():
        from mlxctl.state.stores.audit_files import AuditQuery

        _show(reversed(_find(_open_files(config), AuditQuery(limit=lines))), as_json=as_json)


@app.command(
    short_help="Search audit records by time, key, model and status.",
    epilog="Example: mlxctl audit search --since 2026-01-31 --status 500",
)
def search(
    since: Annotated[str | None, Option(metavar="TIME", help="Records from this time on.")] = None,
    until: Annotated[str | None, Option(metavar="TIME", help="Records up to this time.")] = None,
    key: Annotated[
        str | None, Option(metavar="KEY_NAME", help="Name of an API key, as the records have it.")
    ] = None,
    model: Annotated[str | None, Option(metavar="NAME", help="Name of a model.")] = None,
    status: Annotated[int | None, Option(metavar="CODE", help="HTTP status.")] = None,
    limit: Annotated[int, Option(min=1, max=1000, help="Maximum number of records.")] = 100,
    as_json: AsJson = False,
    config: ConfigFile = None,
) -> None:
    """Search audit records, the newest first.

    A TIME is ISO 8601 (UTC without an offset) or unix seconds.
    """
    with report_errors():
        from mlxctl.state.stores.audit_files import AuditQuery

        query = AuditQuery(
            since=time_of(since, "--since"),
            until=time_of(until, "--until"),
            key=key,
            model=model,
            status=status,
            limit=limit,
        )
        _show(_find(_open_files(config), query), as_json=as_json)


@app.command(
    short_help="Delete audit records past the retention time or size.", epilog="Example: mlxctl audit prune"
)
def prune(as_json: AsJson = False, config: ConfigFile = None) -> None:
    """Delete audit records past audit.retention_days or beyond audit.max_bytes.

    A running server does the same. Whole files are deleted, the oldest first.
    """
    with report_errors():
        files = _open_files(config)
        try:
            num_deleted = files.prune()
        except OSError as error:
            raise SettingsError(
                f"the audit log in {str(files.directory)!r} cannot be pruned: {error}"
            ) from None
    if as_json:
        print_json({"deleted_files": num_deleted})
    else:
        echo(f"{num_deleted} files deleted")


def _open_files(config: Path | None) -> "AuditFiles":
    """Return the audit files. Raises SettingsError."""
    from mlxctl.state import locations
    from mlxctl.state.stores.audit_files import AuditFiles

    settings = read_settings(config).audit
    return AuditFiles(
        settings.path or locations.audit_directory(),
        retention_days=settings.retention_days,
        max_bytes=settings.max_bytes,
    )


def _find(files: "AuditFiles", query: "AuditQuery") -> "list[AuditRecord]":
    """Return matching records, the newest first. Raises SettingsError."""
    try:
        return files.search(query)
    except OSError as error:
        raise SettingsError(f"the audit log in {str(files.directory)!r} cannot be read: {error}") from None


def _show(records: "Iterable[AuditRecord]", *, as_json: bool) -> None:
    """Print records, as a JSON list or one line each."""
    import msgspec

    records = list(records)
    if as_json:
        print_json(msgspec.to_builtins(records))
        return
    for record in records:
        echo(_line(record))
    if not records:
        echo("no records")


def _line(record: "AuditRecord") -> str:
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
