"""Tables for the output of `mlxctl models`."""

from collections.abc import Collection, Sequence
from typing import NamedTuple

from rich.table import Table
from rich.text import Text

from mlxctl.cli.console import console, print_names
from mlxctl.ir.errors import describe_bytes
from mlxctl.library import Fit, Library, ModelDescription
from mlxctl.library.files import OTHER_FORMAT
from mlxctl.library.fit import SPEED_FORMULA
from mlxctl.library.library import LibraryEntry
from mlxctl.library.machine import GIB
from mlxctl.library.weights import format_parameters
from mlxctl.terminal_text import escape_line

WIDE = 200
"""Width for output to a file or a pipe, so that names are not cut."""


class ListedModel(NamedTuple):
    """A model of the library, and how it fits this machine."""

    entry: LibraryEntry
    model: ModelDescription
    fit: Fit | None


def library_table(models: Sequence[ListedModel], probed: Collection[str]) -> Table:
    """Return the table of usable models; `probed` are names of probed models.

    Where they come from is a column unless all are of one library of the user's own.
    """
    origins = {listed.entry.origin for listed in models}
    has_origins = len(origins) > 1 or "LM Studio" in origins
    table = Table("model", "kind", "family", "bits", box=None, pad_edge=False, header_style="bold")
    for heading in ("parameters", "size", "context", "fits", "probed"):
        table.add_column(heading, justify="right")
    if has_origins:
        table.add_column("from", no_wrap=True)
    for entry, model, fit in models:
        weights = model.weights
        table.add_row(
            escape_line(model.name),
            model.detection.kind,
            model.detection.family or "–",
            escape_line(model.number_format or "–"),
            format_parameters(weights.num_parameters) if weights else "–",
            describe_bytes(model.disk_bytes),
            f"{model.context_length:,}" if model.context_length else "–",
            verdict(fit),
            "yes" if model.name in probed else "no",
            *([entry.origin] if has_origins else []),
        )
    return table


def print_listing(rows: Sequence[ListedModel], library: Library, probed: Collection[str]) -> None:
    """Print usable models, aliases, then unusable models with the reason."""
    out = console(width=WIDE)
    usable = [listed for listed in rows if listed.model.problem is None]
    if usable:
        print_names(out, library_table(usable, probed))
    else:
        out.print("No models here yet. Download one with: mlxctl models pull ORGANIZATION/NAME")
    for alias, target in library.aliases.items():
        out.print(Text(f"{alias} stands for {target}"))
    problems = [model.problem for entry, model, _ in rows if model.problem is not None and not entry.is_gguf]
    if gguf := [entry.name for entry, *_ in rows if entry.is_gguf]:
        problems.append(f"{', '.join(gguf)}: {OTHER_FORMAT}")
    if problems:
        out.print("\nCannot be used:", style="bold")
    for problem in problems:
        out.print(Text(f"  {problem}"), soft_wrap=True)


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Return a table with a name and a value per line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in facts:
        table.add_row(name, escape_line(value))
    return table


def fit_table(rows: Sequence[tuple[str, Fit]]) -> Table:
    """Return the table of `models fit`."""
    table = Table("model", "machine", box=None, pad_edge=False, header_style="bold")
    for heading in ("memory", "usable", "context", "needed", "fits", "longest"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("tokens/s", justify="right")
    for name, fit in rows:
        machine, speed, needed = fit.machine, fit.predicted_tokens_per_second, fit.needed_bytes
        longest = (
            "–"
            if fit.max_context_tokens is None
            else f"{fit.max_context_tokens:,}" + (" (all)" if fit.is_capped_by_model else "")
        )
        table.add_row(
            escape_line(name),
            machine.chip or "this machine",
            f"{machine.memory_bytes / GIB:.0f} GB",
            ("" if machine.is_exact else "~") + describe_bytes(machine.usable_bytes),
            f"{fit.context_tokens:,}" if fit.context_tokens else "–",
            describe_bytes(needed) if needed is not None else f"> {describe_bytes(fit.weights_bytes)}",
            verdict(fit),
            longest,
            _speed(fit, speed),
        )
    return table


def _speed(fit: Fit, predicted: float | None) -> str:
    if fit.measured is not None:
        return f"{fit.measured.decode_tokens_per_second:.1f} measured"
    if fit.slow_because is not None:
        return "too slow"
    return f"≤ {predicted:.1f}" if predicted is not None else "not measured"


def fit_legend(rows: Sequence[tuple[str, Fit]]) -> str:
    """Return the meaning of `fit_table`, and why models are too slow."""
    reasons = dict.fromkeys(fit.slow_because for _, fit in rows if fit.slow_because is not None)
    return "".join(f"too slow: {reason}.\n" for reason in reasons) + (
        "needed = weights + KV cache of one conversation, which the prefix cache holds as well, + estimated\n"
        "memory of the largest prefill pass; where memory is short, the copy is dropped, and passes shrink;\n"
        "longest = tokens of the longest conversation that fits; ~ marks a typical share of the memory;\n"
        "memory = as it is sold, in 2^30 bytes; other sizes are in 10^9 bytes.\n"
        f"≤ {SPEED_FORMULA}."
    )


def verdict(fit: Fit | None) -> str:
    """Return yes, no or unknown."""
    return {True: "yes", False: "no", None: "unknown"}[fit.fits if fit else None]
