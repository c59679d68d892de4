"""Prints probe results as tables, evidence or JSON; returns the exit code."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.text import Text

from mlxctl.cli.options import print_json
from mlxctl.cli.probe.results import ModelResult, ProbeResults
from mlxctl.cli.probe.tables import findings_table, overview_table, summary, verdict
from mlxctl.ir.errors import SettingsError
from mlxctl.state.stores import QUESTIONS, Exchange, Finding, write_overrides
from mlxctl.terminal_text import echo, escape_line

_INTERRUPTED = 130


def report(results: ProbeResults, *, as_json: bool, toml: Path | None, with_evidence: bool) -> int:
    """Print all results and return the exit code.

    1 if a model could not be probed, 130 after Ctrl-C. Raises SettingsError when the file cannot be written.
    """
    known = [result for result in results.models if result.problem is None]
    if as_json:
        print_json([_view(result, with_evidence=with_evidence) for result in results.models])
    else:
        _print(known, with_evidence=with_evidence)
    for result in results.models:
        if result.problem is not None:
            echo(f"mlxctl: {result.problem}", err=True)
    if not results.models and not results.was_stopped:
        echo(
            "mlxctl: the library has no model; download one with: mlxctl models pull ORGANIZATION/NAME",
            err=True,
        )
    if toml is not None:
        _write(toml, known)
    if results.was_stopped:
        echo("mlxctl: stopped; findings are stored, the same command continues with the rest", err=True)
        return _INTERRUPTED
    return int(len(known) < len(results.models))


def _print(known: Sequence[ModelResult], *, with_evidence: bool) -> None:
    from mlxctl.cli.console import console, print_names
    from mlxctl.cli.models.tables import WIDE

    out = console(width=WIDE)
    if with_evidence:
        for result in known:
            _print_evidence(out, result)
    elif len(known) == 1:
        out.print(summary(known[0]))
        out.print(findings_table(known[0].known.findings))
    elif known:
        print_names(out, overview_table(known))


def _view(result: ModelResult, *, with_evidence: bool) -> dict[str, Any]:
    record = result.known.record
    findings: list[dict[str, Any]] = msgspec.to_builtins(result.known.findings)
    if not with_evidence:
        for finding in findings:
            del finding["exchanges"]
    return {
        "model": result.name,
        "path": record.path if record else None,
        "fingerprint": record.fingerprint if record else None,
        "probed_at": datetime.fromtimestamp(record.probed_at, UTC).isoformat() if record else None,
        "duration_seconds": record.duration_seconds if record else None,
        "versions": dict(record.versions) if record else None,
        "was_known": result.was_known,
        "phases": dict(result.phases),
        "findings": findings,
        "problem": result.problem,
    }


def check_free(file: Path | None) -> None:
    """Raise SettingsError if the file exists.

    It may have been edited by hand.
    """
    if file is not None and file.exists():
        raise SettingsError(f"{str(file)!r} exists and is not overwritten; name another file")


def _write(file: Path, known: Sequence[ModelResult]) -> None:
    records = [result.known.record for result in known if result.known.record is not None]
    try:
        file.write_text(write_overrides(records), encoding="utf-8")
    except OSError as error:
        raise SettingsError(f"the results cannot be written to {str(file)!r}: {error.strerror}") from None


def _print_evidence(out: Console, result: ModelResult) -> None:
    """Print all findings about a model, with prompts and outputs verbatim."""
    out.print(summary(result), style="bold")
    if result.known.record is not None:
        out.print(f"fingerprint {result.known.record.fingerprint}", soft_wrap=True)
    for finding in result.known.findings:
        out.print()
        _print_finding(out, finding)


def _print_finding(out: Console, finding: Finding) -> None:
    out.print(Text.assemble((QUESTIONS[finding.question], "bold"), ": ", verdict(finding)))
    out.print(Padding(escape_line(finding.reason), (0, 0, 0, 2)))
    for name, value in finding.value.items():
        out.print(Padding(escape_line(f"{name}: {value}"), (0, 0, 0, 2)))
    for exchange in finding.exchanges:
        _print_exchange(out, exchange)


def _print_exchange(out: Console, exchange: Exchange) -> None:
    reader = f", parsed by {exchange.parser_id}" if exchange.parser_id else ""
    out.print("  prompt", style="dim")
    out.print(_quoted(exchange.prompt), soft_wrap=True)
    out.print(
        Text(
            f"  output, {exchange.num_tokens} tokens in {exchange.duration_seconds:.2f} s{reader}",
            style="dim",
        )
    )
    out.print(_quoted(exchange.output), soft_wrap=True)


def _quoted(text: str) -> Text:
    return Text("\n".join(f"    │ {escape_line(line)}" for line in text.split("\n")))
