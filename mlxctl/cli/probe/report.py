"""What `mlxctl probe` prints, and what it leaves the shell with."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import typer

from mlxctl.cli.models.shared_options import print_json
from mlxctl.cli.probe.answers import Answer, Answers
from mlxctl.cli.probe.evidence import print_evidence
from mlxctl.cli.probe.tables import findings_table, overview_table, summary
from mlxctl.errors import SettingsError
from mlxctl.stores import write_overrides

_INTERRUPTED = 130


def report(found: Answers, *, as_json: bool, toml: Path | None, with_evidence: bool) -> int:
    """Print all answers and return the exit code: 1 if a model could not be asked, 130 if a person broke off.

    Raises SettingsError when the file cannot be written.
    """
    known = [answer for answer in found.answers if answer.problem is None]
    if as_json:
        print_json([_view(answer, with_evidence=with_evidence) for answer in found.answers])
    else:
        _print(known, with_evidence=with_evidence)
    for answer in found.answers:
        if answer.problem is not None:
            typer.echo(f"mlxctl: {answer.problem}", err=True)
    if toml is not None:
        _write(toml, known)
    if found.was_stopped:
        typer.echo(
            "mlxctl: stopped; what was found is kept, the same command goes on with the rest", err=True
        )
        return _INTERRUPTED
    return int(len(known) < len(found.answers))


def _print(known: Sequence[Answer], *, with_evidence: bool) -> None:
    from mlxctl.cli.console import console
    from mlxctl.cli.models.tables import WIDE

    out = console(width=WIDE)
    if with_evidence:
        for answer in known:
            print_evidence(out, answer)
    elif len(known) == 1:
        out.print(summary(known[0]))
        out.print(findings_table(known[0].known.findings))
    elif known:
        out.print(overview_table(known))


def _view(answer: Answer, *, with_evidence: bool) -> dict[str, Any]:
    record = answer.known.record
    findings: list[dict[str, Any]] = msgspec.to_builtins(answer.known.findings)
    if not with_evidence:
        for finding in findings:
            del finding["exchanges"]
    return {
        "model": answer.name,
        "path": record.path if record else None,
        "fingerprint": record.fingerprint if record else None,
        "probed_at": datetime.fromtimestamp(record.probed_at, UTC).isoformat() if record else None,
        "duration_seconds": record.duration_seconds if record else None,
        "versions": dict(record.versions) if record else None,
        "was_known": answer.was_known,
        "phases": dict(answer.phases),
        "findings": findings,
        "problem": answer.problem,
    }


def check_free(file: Path | None) -> None:
    """Raise SettingsError when there is a file already: somebody may have laid down things in it by hand."""
    if file is not None and file.exists():
        raise SettingsError(f"{str(file)!r} is there already and is not written over; name another file")


def _write(file: Path, known: Sequence[Answer]) -> None:
    records = [answer.known.record for answer in known if answer.known.record is not None]
    try:
        file.write_text(write_overrides(records), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"the answers cannot be written to {str(file)!r}: {error.strerror}") from None
