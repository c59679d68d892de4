"""Prints probe results as tables, evidence or JSON; returns the exit code."""

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from mlxctl.cli.error_reports import INTERRUPTED
from mlxctl.cli.options import print_json
from mlxctl.cli.probe.results import ModelResult, ProbeResults
from mlxctl.ir.errors import SettingsError
from mlxctl.ir.models import media_support
from mlxctl.state.stores import QUESTIONS, Exchange, Finding, ProbeRecord, write_overrides
from mlxctl.terminal_text import echo, escape_line


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
        return INTERRUPTED
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
        **media_support(result.known.verdicts, images=None, audio=None),
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


_COLORS = {"yes": "green", "no": "default", "unknown": "yellow"}
_OVERVIEW = {
    "chat": "chat",
    "tools": "tools",
    "thinking": "thinking",
    "structured_output": "JSON",
    "batch_safe": "batch",
    "vision": "vision",
    "embeddings": "vectors",
    "reranking": "scores",
    "audio": "audio",
}
# Shown only if a model has the capability: few have.
_RARE = ("embeddings", "reranking", "audio")


def summary(result: ModelResult) -> Text:
    """Return model, time and versions of the probe as one line."""
    record = result.known.record
    if record is None:
        return Text(escape_line(f"{result.name}, never probed"))
    versions = ", ".join(f"{package} {version}" for package, version in record.versions.items())
    line = f"{result.name}, probed {when(record)} in {record.duration_seconds:.1f} s with {versions}"
    return Text(escape_line(line))


def when(record: ProbeRecord) -> str:
    """Return the time of the probe, local."""
    return datetime.fromtimestamp(record.probed_at).astimezone().strftime("%Y-%m-%d %H:%M")


def findings_table(findings: Sequence[Finding]) -> Table:
    """Return the findings about one model, a question per line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in findings:
        table.add_row(QUESTIONS[finding.question], verdict(finding), escape_line(_with_format(finding)))
    return table


def overview_table(results: Sequence[ModelResult]) -> Table:
    """Return the results of several models, a model per line."""
    done = {
        finding.question
        for result in results
        for finding in result.known.findings
        if finding.verdict == "yes"
    }
    shown = [question for question in _OVERVIEW if question in done or question not in _RARE]
    table = Table(
        "model",
        *(_OVERVIEW[question] for question in shown),
        "calls",
        box=None,
        pad_edge=False,
        header_style="bold",
    )
    table.add_column("longest", justify="right")
    for result in results:
        found = {finding.question: finding for finding in result.known.findings}
        cells = [verdict(found[question]) if question in found else Text("–") for question in shown]
        table.add_row(
            escape_line(result.name), *cells, escape_line(_value(found, "tools", "parser")), _longest(found)
        )
    return table


def verdict(finding: Finding) -> Text:
    """Return yes, no, unknown or failed.

    Failed is a question that raised an error.
    """
    return (
        Text("failed", style="red")
        if finding.has_failed
        else Text(finding.verdict, style=_COLORS[finding.verdict])
    )


def _with_format(finding: Finding) -> str:
    parser = finding.value.get("parser")
    return f"{finding.reason} ({parser})" if parser else finding.reason


def _value(found: dict[str, Finding], question: str, name: str) -> str:
    return str(found[question].value.get(name, "–")) if question in found else "–"


def _longest(found: dict[str, Finding]) -> str:
    tokens = found["practical_context"].value.get("tokens") if "practical_context" in found else None
    return f"{tokens:,}" if isinstance(tokens, int) else "–"
