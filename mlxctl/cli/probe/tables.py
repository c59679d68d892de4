"""Tables of probe results."""

from collections.abc import Sequence
from datetime import datetime

from rich.table import Table
from rich.text import Text

from mlxctl.cli.probe.results import ModelResult
from mlxctl.state.stores import QUESTIONS, Finding, ProbeRecord
from mlxctl.terminal_text import escape_line

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
