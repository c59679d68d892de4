"""Verification of the prefix cache on disk."""

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, get_args

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mlxctl.cli.inspector.rendering import plain, size
from mlxctl.ir.errors import StoreError
from mlxctl.prefix_cache.disk.inspection import DiskFinding, DiskInspector, Problem
from mlxctl.state.stores.damage import DATABASE_ERRORS

_MAX_SHOWN = 50


@dataclass(frozen=True, slots=True, kw_only=True)
class VerificationResult:
    """Counts of a verification, and its findings."""

    directory: Path
    num_records: int
    num_bytes: int
    findings: tuple[DiskFinding, ...]

    @property
    def num_problems(self) -> dict[str, int]:
        """Number of findings by problem, zeros included."""
        found = Counter(finding.problem for finding in self.findings)
        return {problem: found[problem] for problem in get_args(Problem)}

    def as_dict(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {
            "directory": str(self.directory),
            "is_sound": not self.findings,
            "num_records": self.num_records,
            "num_bytes": self.num_bytes,
            "num_problems": self.num_problems,
            "findings": [
                {
                    "problem": finding.problem,
                    "key": finding.key.hex(),
                    "position": finding.position,
                    "detail": finding.detail,
                }
                for finding in self.findings
            ],
        }


def verify_directory(directory: Path, watch: Callable[[int, int], object]) -> VerificationResult:
    """Read and check everything below a cache directory.

    `watch` gets the bytes done and the total. Raises StoreError.
    """
    inspector = DiskInspector.open(directory)
    try:
        sizes = inspector.sizes()
        findings = inspector.verify(lambda num_bytes: watch(num_bytes, sizes.record_bytes))
    except (OSError, *DATABASE_ERRORS) as error:
        raise StoreError(f"cannot read the prefix cache in {str(directory)!r}: {error}") from error
    finally:
        inspector.close()
    return VerificationResult(
        directory=directory,
        num_records=sizes.num_chunks + sizes.num_states,
        num_bytes=sizes.record_bytes,
        findings=tuple(findings),
    )


def result_lines(result: VerificationResult) -> RenderableType:
    """Return a summary, and one line per finding up to a maximum."""
    read = f"{result.num_records:,} record{'' if result.num_records == 1 else 's'}, {size(result.num_bytes)}"
    if not result.findings:
        return Text(f"ok: {read}")
    counts = ", ".join(f"{num:,} {problem}" for problem, num in result.num_problems.items() if num)
    table = Table(box=None, pad_edge=False, show_header=False)
    for finding in result.findings[:_MAX_SHOWN]:
        position = "" if finding.position is None else f"state at {finding.position:,}"
        table.add_row(finding.problem, finding.key.hex()[:12], position, plain(finding.detail))
    more = len(result.findings) - _MAX_SHOWN
    rest = [Text(f"and {more:,} more; --json lists them all")] if more > 0 else []
    return Group(
        Text(f"not sound: {counts}; {read} read; `mlxctl cache gc` removes unusable files"), table, *rest
    )
