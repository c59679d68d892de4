"""Probe results by model: probed now, or read from the store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from types import TracebackType
from typing import Self

from rich.cells import cell_len, chop_cells
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TaskID,
    TextColumn,
    TimeElapsedColumn,
)

from mlxctl.cli.console import console
from mlxctl.cli.running_server import tell_servers
from mlxctl.cli.served_directories import find_directory, warn_of_second_load
from mlxctl.library import Library
from mlxctl.library.capability_lookup import CapabilityLookup, ProbedModel, open_capability_lookup, open_store
from mlxctl.probe import ProbeOutcome, ProbeRun
from mlxctl.probe.targets import ProbeTarget, all_targets, find_listener, named_targets
from mlxctl.state.settings import Settings
from mlxctl.state.stores import Finding
from mlxctl.terminal_text import escape_line

_UNKNOWN = ProbedModel()


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResult:
    """The findings about one model, or `problem`: why there are none.

    `was_known`: read from the store, not probed now. `phases`: seconds by phase of the probe.
    """

    name: str
    known: ProbedModel = _UNKNOWN
    problem: str | None = None
    was_known: bool = False
    phases: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeResults:
    """Results in the order of the names; `was_stopped` after Ctrl-C."""

    models: tuple[ModelResult, ...]
    was_stopped: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ProbeOptions:
    """Options of a probe, from the command line."""

    force: bool
    timeout_seconds: float
    trust_remote_code: bool
    is_quiet: bool


def probe_models(names: Sequence[str] | None, settings: Settings, options: ProbeOptions) -> ProbeResults:
    """Probe the named models, or all of the library.

    Raises SettingsError, StoreError; a problem of one model is in its result.
    """
    knowledge, store, library = open_capability_lookup(), open_store(), Library(settings.library)
    progress = ProgressBar(is_quiet=options.is_quiet)
    run = ProbeRun(
        store,
        settings.engine,
        observer=progress,
        is_forced=options.force,
        trust_remote_code=options.trust_remote_code or settings.model.trust_remote_code,
        deadline_seconds=options.timeout_seconds,
        find_listener=partial(find_listener, library),
    )
    targets = _targets(names, library)
    if not options.is_quiet:
        for target in targets:
            if target.directory is not None:
                warn_of_second_load(target.name, target.directory.path)
    was_stopped = False
    try:
        with progress:
            asyncio.run(run.probe(targets))
    except KeyboardInterrupt:
        was_stopped = True
    finally:
        store.close()
    new = [outcome for outcome in run.outcomes if outcome.record is not None and not outcome.was_known]
    tell_servers([outcome.directory.path for outcome in new if outcome.directory is not None], settings)
    results = tuple(_to_result(outcome, knowledge, library) for outcome in run.outcomes)
    knowledge.warn_of_unmatched((), library)
    knowledge.close()
    return ProbeResults(models=results, was_stopped=was_stopped)


def read_results(names: Sequence[str] | None, settings: Settings) -> ProbeResults:
    """Return stored results of the named models, or of all.

    Raises SettingsError, StoreError.
    """
    store = open_store()
    # A server runs without this store; here its absence is an error.
    store.has_records()
    store.close()
    knowledge, library = open_capability_lookup(), Library(settings.library)
    results = tuple(_read_result(target, knowledge, library) for target in _targets(names, library))
    knowledge.warn_of_unmatched((), library)
    knowledge.close()
    return ProbeResults(models=results)


def _targets(names: Sequence[str] | None, library: Library) -> list[ProbeTarget]:
    return named_targets(names, lambda name: find_directory(name, library)) if names else all_targets(library)


def _to_result(outcome: ProbeOutcome, knowledge: CapabilityLookup, library: Library) -> ModelResult:
    if outcome.record is None or outcome.directory is None:
        return ModelResult(name=outcome.name, problem=outcome.problem)
    known = knowledge.over(outcome.record, outcome.directory.name, outcome.directory.path, library)
    return ModelResult(name=outcome.name, known=known, was_known=outcome.was_known, phases=outcome.phases)


def _read_result(target: ProbeTarget, knowledge: CapabilityLookup, library: Library) -> ModelResult:
    if target.directory is None:
        return ModelResult(name=target.name, problem=target.problem)
    known = knowledge.of(target.directory.name, target.directory.path, library)
    if not known.findings:
        return ModelResult(
            name=target.name,
            problem=f"model {target.name!r} was never probed; to probe it: mlxctl probe {target.name}",
        )
    return ModelResult(name=target.name, known=known, was_known=True)


_BAR_COLUMNS = 10
# Spinner, bar, steps, tokens, time, and the gaps between all columns.
_OTHER_COLUMNS = 1 + _BAR_COLUMNS + 5 + 14 + 7 + 6
_MIN_TEXT_COLUMNS = 8


class ProgressBar:
    """A probe watcher that draws a progress bar; a context manager."""

    def __init__(self, *, is_quiet: bool, screen: Console | None = None) -> None:
        screen = screen or console(stderr=True)
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=_BAR_COLUMNS),
            MofNCompleteColumn(),
            TextColumn("{task.fields[what]}", markup=False),
            TextColumn("{task.fields[tokens]:,} tokens", markup=False),
            TimeElapsedColumn(),
        )
        self._progress = Progress(
            *columns, console=screen, disable=is_quiet or not screen.is_terminal, transient=True
        )
        self._text_columns = max((screen.width - _OTHER_COLUMNS) // 2, _MIN_TEXT_COLUMNS)
        self._task: TaskID | None = None
        self._num_tokens = 0

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    def model_started(self, model: str, num_steps: int) -> None:
        self._num_tokens = 0
        self._task = self._progress.add_task(
            self._fitting(escape_line(model)), total=num_steps, completed=-1, what="", tokens=0
        )

    def step_started(self, what: str) -> None:
        if self._task is not None:
            self._progress.update(self._task, advance=1, what=self._fitting(what))

    def tokens_generated(self, num_tokens: int) -> None:
        self._num_tokens += num_tokens
        if self._task is not None:
            self._progress.update(self._task, tokens=self._num_tokens)

    def found(self, finding: Finding) -> None:
        """Ignore the finding; the table is printed at the end."""

    def _fitting(self, text: str) -> str:
        """Cut a text to half of the line's free columns."""
        if cell_len(text) <= self._text_columns:
            return text
        return f"{chop_cells(text, self._text_columns - 1)[0]}…"

    def ended(self) -> None:
        if self._task is not None:
            self._progress.remove_task(self._task)
            self._task = None
