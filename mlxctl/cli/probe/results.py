"""Probe results by model: probed now, or read from the store."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from mlxctl.cli.probe.progress import ProgressBar
from mlxctl.cli.running_server import tell_servers
from mlxctl.cli.served_directories import find_directory, warn_of_second_load
from mlxctl.library import Library
from mlxctl.library.capability_lookup import CapabilityLookup, ProbedModel, open_capability_lookup, open_store
from mlxctl.probe import ProbeOutcome, ProbeRun
from mlxctl.probe.targets import ProbeTarget, all_targets, named_targets
from mlxctl.state.settings import Settings

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
