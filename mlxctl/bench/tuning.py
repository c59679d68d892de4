"""Drafters of speculative decoding to measure, and the fastest one."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mlxctl.bench.result import Result
from mlxctl.bench.run import RunOptions, ServerChoice, run_bench
from mlxctl.bench.runner import Observer
from mlxctl.bench.scenarios import Speculation
from mlxctl.library.draft_models import Drafters

TASKS = ("code", "json", "prose", "batch")
"""Tasks of the scenario, as its figures name them."""

# A smaller gain is within the noise of a run.
_MIN_GAIN = 1.02


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterTrial:
    """A drafter, its options of `mlxctl serve`, and its measured speedups.

    A speedup is tokens per second with speculative decoding, divided by those without. `overall` is their
    geometric mean, None before all tasks were measured. `accepted_share` is that of all verified draft
    tokens. `problem` is why the measurement ended early.
    """

    drafter: str
    serve_options: tuple[str, ...]
    speedups: dict[str, float]
    overall: float | None = None
    accepted_share: float | None = None
    problem: str | None = None


def drafter_trials(drafters: Drafters, *, max_draft_models: int) -> list[DrafterTrial]:
    """Return prompt lookup, the MTP heads and the first draft models."""
    own = ("lookup", "mtp") if drafters.has_mtp_head else ("lookup",)
    others = [("mtp", name) for name in drafters.mtp_heads]
    others += [("draft", name) for name in drafters.draft_models[:max_draft_models]]
    return [
        *(DrafterTrial(drafter=name, serve_options=("--speculation", name), speedups={}) for name in own),
        *(
            DrafterTrial(drafter=name, serve_options=("--speculation", kind, "--draft", name), speedups={})
            for kind, name in others
        ),
    ]


def measure_trial(
    trial: DrafterTrial, model: str, scenario: Speculation, *, num_rounds: int, observer: Observer
) -> DrafterTrial:
    """Start a server with the drafter and measure it. Raises MlxctlError."""
    server = ServerChoice(serve_arguments=("--model", model, *trial.serve_options))
    return read_trial(
        trial, run_bench(scenario, RunOptions(servers=(server,), num_rounds=num_rounds), observer)
    )


def read_trial(trial: DrafterTrial, result: Result) -> DrafterTrial:
    """Return the trial with the medians of a result of `bench speculation`."""
    found = {task: result.find(f"{task}_speedup") for task in TASKS}
    speedups = {task: figure.median for task, figure in found.items() if figure is not None}
    accepted = result.find("accepted_share")
    return replace(
        trial,
        speedups=speedups,
        overall=statistics.geometric_mean(speedups.values()) if len(speedups) == len(TASKS) else None,
        accepted_share=None if accepted is None else accepted.median,
        problem=result.problem,
    )


def fastest_trial(trials: Sequence[DrafterTrial]) -> DrafterTrial | None:
    """Return the trial with the largest speedup, None if none gains.

    Without an accepted draft a speedup is noise.
    """
    measured = [
        trial
        for trial in trials
        if trial.accepted_share and trial.overall is not None and trial.overall >= _MIN_GAIN
    ]
    return max(measured, key=lambda trial: trial.overall or 0.0, default=None)
