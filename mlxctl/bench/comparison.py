"""Comparison of two stored results of one scenario, with a noise test."""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from mlxctl.bench.figures import Better, Unit
from mlxctl.bench.result import MeasuredServer, Measurement, Result
from mlxctl.ir.errors import SettingsError

# Two runs are not paired, so every round of one is compared with every round of the other. A difference
# counts when this share of the pairs agrees on its direction; with five rounds each, chance alone does that
# about 3 times in 100.
_AGREEMENT = 0.9
_MIN_ROUNDS = 3
# Expected to differ between any two runs, so not reported.
_NOT_COMPARED = {"nonce", "load_average", "commit"}


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureChange:
    """Change of one figure; `change` is relative, None when `before` is 0."""

    name: str
    unit: Unit
    better: Better
    meaning: str
    before: float
    after: float
    change: float | None
    verdict: Literal["better", "worse", "same", "noise"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Changes of the common figures, and notes for the reader."""

    scenario: str
    changes: tuple[FigureChange, ...]
    notes: tuple[str, ...]

    def find(self, name: str) -> FigureChange | None:
        """Return the change of a figure; None when a result lacks it."""
        return next((change for change in self.changes if change.name == name), None)


def compare_results(before: Result, after: Result) -> Comparison:
    """Compare server A of both results.

    Raises SettingsError for different scenarios, or without a common figure.
    """
    if before.scenario != after.scenario:
        raise SettingsError(
            f"{before.scenario!r} and {after.scenario!r} are different measurements and cannot be compared"
        )
    pairs = [(found, after.find(found.name)) for found in before.measurements if found.target == "A"]
    changes = tuple(_change(old, new) for old, new in pairs if new is not None)
    if not changes:
        raise SettingsError("the two results have no figure in common")
    return Comparison(scenario=before.scenario, changes=changes, notes=_notes(before, after))


def is_noise(before: Sequence[float], after: Sequence[float]) -> bool:
    """Return whether two runs overlap too much or have too few rounds."""
    if min(len(before), len(after)) < _MIN_ROUNDS:
        return True
    higher = statistics.fmean((new > old) + 0.5 * (new == old) for old in before for new in after)
    return 1 - _AGREEMENT < higher < _AGREEMENT


def _change(old: Measurement, new: Measurement) -> FigureChange:
    change = new.median / old.median - 1 if old.median else None
    return FigureChange(
        name=new.name,
        unit=new.unit,
        better=new.better,
        meaning=new.meaning,
        before=old.median,
        after=new.median,
        change=change,
        verdict=_verdict(old, new),
    )


def _verdict(old: Measurement, new: Measurement) -> Literal["better", "worse", "same", "noise"]:
    if set(old.rounds) == set(new.rounds):
        return "same"
    if is_noise(old.rounds, new.rounds):
        return "noise"
    return "better" if (new.median > old.median) == (new.better == "higher") else "worse"


def _notes(before: Result, after: Result) -> tuple[str, ...]:
    partial = [
        f"{name} is partial: {result.num_rounds} of {result.num_rounds_wanted} rounds ({result.problem})"
        for name, result in (("A", before), ("B", after))
        if result.is_partial
    ]
    one, other = before.servers[0], after.servers[0]
    models = _differences("model", {"": one.model}, {"": other.model})
    models += _differences("server's", _server_facts(one), _server_facts(other))
    settings = _differences("setting", before.settings, after.settings)
    return (*partial, *models, *settings, *_differences("machine:", before.environment, after.environment))


def _server_facts(server: MeasuredServer) -> dict[str, Any]:
    """Return what the server runs, under the names of a note."""
    engine = server.engine
    return {
        "parameters": server.num_parameters,
        "number format": server.number_format,
        "MLX": engine.mlx_version,
        "backend": engine.backend,
        "device": engine.device,
        "BLAS": engine.blas,
    }


def _differences(what: str, before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    names = dict.fromkeys([*before, *after])
    return [
        " ".join(filter(None, (what, name, f"differs: {before.get(name)} in A, {after.get(name)} in B")))
        for name in names
        if name not in _NOT_COMPARED and before.get(name) != after.get(name)
    ]
