"""What `mlxctl models fit` works out and prints."""

from collections.abc import Sequence

import msgspec

from mlxctl.cli.console import console
from mlxctl.cli.models.shared_options import print_json
from mlxctl.cli.models.tables import WIDE, fit_legend, fit_table
from mlxctl.errors import BrokenModel
from mlxctl.models import Fit, Library, ModelDescription, describe_model, fit_model, fit_on_macs, this_machine
from mlxctl.models.kv_format import chosen_kv_format
from mlxctl.models.views import FitView
from mlxctl.settings import Settings

Rows = list[tuple[str, Fit]]


def work_out(names: Sequence[str], settings: Settings, *, context_tokens: int | None, on_macs: bool) -> Rows:
    """Return a row for each model and machine; raises ModelError for a model that is not there or cannot be
    weighed.
    """
    library, chunk_tokens = Library(settings.library), settings.engine.prefill_chunk_max_tokens
    found = map(library.resolve, names)
    models = [
        describe_model(one.path, name=one.name).served_with(chosen_kv_format(settings, one.name))
        for one in found
    ]
    if on_macs:
        every = (
            (model, fit_on_macs(model, context_tokens=context_tokens, chunk_tokens=chunk_tokens))
            for model in models
        )
        return [(model.name, fit) for model, fits in every for fit in fits or [_refuse(model)]]
    machine = this_machine(memory_limit_bytes=settings.engine.memory_limit_bytes)
    fits = (
        (model, fit_model(model, machine, context_tokens=context_tokens, chunk_tokens=chunk_tokens))
        for model in models
    )
    return [(model.name, fit or _refuse(model)) for model, fit in fits]


def print_fits(rows: Rows, *, as_json: bool) -> None:
    """Print the table and what its columns mean, or JSON."""
    if as_json:
        print_json([msgspec.to_builtins(FitView.of(name, fit)) for name, fit in rows])
        return
    out = console(width=WIDE)
    out.print(fit_table(rows))
    out.print(fit_legend(), style="dim")


def _refuse(model: ModelDescription) -> Fit:
    raise BrokenModel(
        model.path, model.problem or f"model {model.name!r} has no weights that could be weighed"
    )
