"""Models as tables for people. Names come from the disk, so nothing in them is taken for markup."""

from collections.abc import Collection, Sequence

from rich.table import Table
from rich.text import Text

from mlxctl.models import Fit, ModelDescription
from mlxctl.models.fit import SPEED_FORMULA

WIDE = 200
"""Columns for whole names where the output goes to a file or to another program."""


def library_table(models: Sequence[tuple[ModelDescription, Fit | None]], probed: Collection[str]) -> Table:
    """Return the list of models that can be used.

    `probed` are the names of those that were asked what they can do.
    """
    table = Table("model", "kind", "family", "bits", box=None, pad_edge=False, header_style="bold")
    for heading in ("parameters", "size", "context", "fits", "probed"):
        table.add_column(heading, justify="right")
    for model, fit in models:
        weights = model.weights
        table.add_row(
            plain(model.name),
            model.detection.kind,
            model.detection.family or "–",
            bits_of(model),
            count(weights.num_parameters) if weights else "–",
            size(model.disk_bytes),
            f"{model.context_length:,}" if model.context_length else "–",
            verdict(fit),
            "yes" if model.name in probed else "no",
        )
    return table


def facts_table(facts: Sequence[tuple[str, str]]) -> Table:
    """Return names and values, one a line."""
    table = Table(box=None, pad_edge=False, show_header=False)
    for name, value in facts:
        table.add_row(name, plain(value))
    return table


def fit_table(rows: Sequence[tuple[str, Fit]]) -> Table:
    """Return how models fit machines."""
    table = Table("model", "machine", box=None, pad_edge=False, header_style="bold")
    for heading in ("memory", "usable", "context", "needed", "fits", "longest context", "predicted tokens/s"):
        table.add_column(heading, justify="right")
    for name, fit in rows:
        machine, speed, needed = fit.machine, fit.predicted_tokens_per_second, fit.needed_bytes
        longest = (
            "–"
            if fit.max_context_tokens is None
            else f"{fit.max_context_tokens:,}" + (" (all)" if fit.is_capped_by_model else "")
        )
        table.add_row(
            plain(name),
            machine.chip or "this machine",
            f"{machine.memory_bytes / 1024**3:.0f} GiB",
            ("" if machine.is_exact else "~") + size(machine.usable_bytes),
            f"{fit.context_tokens:,}",
            size(needed) if needed is not None else f"> {size(fit.weights_bytes)}",
            verdict(fit),
            longest,
            f"≤ {speed:.1f}" if speed is not None else "–",
        )
    return table


def fit_legend() -> str:
    """Return what the columns of `fit_table` mean."""
    return (
        "needed = weights + cache of one conversation + an estimate for reading a prompt; ~ marks a usual share of the memory.\n"
        f"{SPEED_FORMULA}."
    )


def bits_of(model: ModelDescription) -> str:
    """Return how the weights are kept."""
    if model.quantization is not None:
        return model.quantization.label
    return (
        f"{8 * model.weights.float_bytes}-bit float" if model.weights and model.weights.float_bytes else "–"
    )


def verdict(fit: Fit | None) -> str:
    """Return yes, no, or that nobody knows."""
    return {True: "yes", False: "no", None: "unknown"}[fit.fits if fit else None]


def size(num_bytes: int) -> str:
    """Return bytes as a person reads them, in decimal units."""
    return f"{num_bytes / 1e9:.2f} GB" if num_bytes >= 5e7 else f"{num_bytes / 1e6:.2f} MB"


def count(number: int) -> str:
    """Return a number of parameters as model names write it."""
    return f"{number / 1e9:.2f} B" if number >= 1e9 else f"{number / 1e6:.1f} M"


def plain(text: str) -> Text:
    """Return the text without control characters, and without meaning for Rich."""
    return Text("".join(character if character.isprintable() else "?" for character in text))
