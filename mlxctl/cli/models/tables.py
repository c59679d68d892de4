"""Tables for the output of `mlxctl models`."""

from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text

from mlxctl.cli.console import console, print_names
from mlxctl.models import Fit, Library, ModelDescription
from mlxctl.models.fit import SPEED_FORMULA
from mlxctl.models.weights import format_parameters
from mlxctl.terminal_text import escape_line

WIDE = 200
"""Width for output to a file or a pipe, so that names are not cut."""


def library_table(models: Sequence[tuple[ModelDescription, Fit | None]], probed: Collection[str]) -> Table:
    """Return the table of usable models; `probed` are names of probed models."""
    table = Table("model", "kind", "family", "bits", box=None, pad_edge=False, header_style="bold")
    for heading in ("parameters", "size", "context", "fits", "probed"):
        table.add_column(heading, justify="right")
    for model, fit in models:
        weights = model.weights
        table.add_row(
            escape_line(model.name),
            model.detection.kind,
            model.detection.family or "–",
            escape_line(model.number_format or "–"),
            format_parameters(weights.num_parameters) if weights else "–",
            size(model.disk_bytes),
            f"{model.context_length:,}" if model.context_length else "–",
            verdict(fit),
            "yes" if model.name in probed else "no",
        )
    return table


def print_listing(
    rows: Sequence[tuple[ModelDescription, Fit | None]], library: Library, probed: Collection[str]
) -> None:
    """Print usable models, aliases, then unusable models with the reason."""
    out = console(width=WIDE)
    usable = [(model, fit) for model, fit in rows if model.problem is None]
    if usable:
        print_names(out, library_table(usable, probed))
    else:
        out.print("No models here yet. Download one with: mlxctl models pull ORGANIZATION/NAME")
    for alias, target in library.aliases.items():
        out.print(Text(f"{alias} stands for {target}"))
    broken = [model for model, _ in rows if model.problem is not None]
    if broken:
        out.print("\nCannot be used:", style="bold")
    for model in broken:
        out.print(Text(f"  {model.problem}"), soft_wrap=True)


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
            f"{machine.memory_bytes / 1024**3:.0f} GiB",
            ("" if machine.is_exact else "~") + _memory(machine.usable_bytes),
            f"{fit.context_tokens:,}",
            _memory(needed) if needed is not None else f"> {_memory(fit.weights_bytes)}",
            verdict(fit),
            longest,
            _speed(fit, speed),
        )
    return table


def _memory(num_bytes: int) -> str:
    """Return bytes as text, in binary units as memory is sold."""
    return f"{num_bytes / 1024**3:.2f} GiB" if num_bytes >= 5e7 else f"{num_bytes / 1024**2:.2f} MiB"


def _speed(fit: Fit, predicted: float | None) -> str:
    if fit.measured is not None:
        return f"{fit.measured.decode_tokens_per_second:.1f} measured"
    return f"≤ {predicted:.1f}" if predicted is not None else "not measured"


def fit_legend() -> str:
    """Return the meaning of the columns of `fit_table`."""
    return (
        "needed = weights + KV cache of one conversation, which the prefix cache holds as well, + estimated\n"
        "memory of the largest prefill pass; where memory is short, the copy is dropped, and passes shrink;\n"
        "longest = tokens of the longest conversation that fits; ~ marks a typical share of the memory.\n"
        f"≤ {SPEED_FORMULA}."
    )


def verdict(fit: Fit | None) -> str:
    """Return yes, no or unknown."""
    return {True: "yes", False: "no", None: "unknown"}[fit.fits if fit else None]


def size(num_bytes: int) -> str:
    """Return bytes as text, in decimal units."""
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 5e7 else f"{num_bytes / 1e6:.2f} MB"
