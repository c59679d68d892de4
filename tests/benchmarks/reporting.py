"""Findings as a table and as JSON, with their environment."""

import json
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from mlxctl.bench.environment import describe_environment
from mlxctl.library import this_machine
from tests.benchmarks.rounds import Finding

_WIDE = 160


def print_findings(findings: Sequence[Finding], *, title: str, caption: str) -> None:
    """Print the table on standard error."""
    table = Table(title=title, caption=caption)
    for column in ("measurement", "value", "spread", "bar", "", "detail"):
        table.add_column(column)
    for finding in findings:
        spread = f"{finding.ratio.lowest:.2f} to {finding.ratio.highest:.2f}"
        bar = f"{'≥' if finding.at_least else '≤'} {finding.bar:g}"
        verdict = "ok" if finding.is_met else "no"
        table.add_row(finding.name, f"{finding.ratio.median:.2f}", spread, bar, verdict, finding.detail)
    Console(stderr=True, width=_WIDE).print(table)


def store_findings(findings: Sequence[Finding], out: Path, **facts: Any) -> str:
    """Write the document, and return it as one line of JSON."""
    document = {
        "environment": describe_environment(this_machine()),
        **facts,
        "findings": [asdict(finding) | {"is_met": finding.is_met} for finding in findings],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    return json.dumps(document)
