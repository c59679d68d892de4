"""From names to what is known of the models: asked now, or looked up."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass

from mlxctl.cli.probe.answers import Answer, Answers
from mlxctl.cli.probe.progress import ProgressBar
from mlxctl.models import Library
from mlxctl.models.knowledge import Knowledge, open_knowledge, open_store
from mlxctl.probe import ProbeOutcome, ProbeRun
from mlxctl.probe.targets import Target, every_target, named_targets
from mlxctl.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class Wishes:
    """How a person wants models to be asked."""

    force: bool
    timeout_seconds: float
    trust_remote_code: bool
    is_quiet: bool


def ask(names: Sequence[str] | None, settings: Settings, wishes: Wishes) -> Answers:
    """Probe the models of these names, or all.

    Raises SettingsError, StoreError; what is wrong with a model is in its answer.
    """
    knowledge, store, library = open_knowledge(), open_store(), Library(settings.library)
    progress = ProgressBar(is_quiet=wishes.is_quiet)
    run = ProbeRun(
        store,
        settings.engine,
        watcher=progress,
        is_forced=wishes.force,
        trust_remote_code=wishes.trust_remote_code or settings.model.trust_remote_code,
        deadline_seconds=wishes.timeout_seconds,
    )
    was_stopped = False
    try:
        with progress:
            asyncio.run(run.probe(_targets(names, library)))
    except KeyboardInterrupt:
        was_stopped = True
    finally:
        store.close()
    answers = tuple(_answer(outcome, knowledge, library) for outcome in run.outcomes)
    knowledge.warn_of_unmatched((), library)
    knowledge.close()
    return Answers(answers=answers, was_stopped=was_stopped)


def look(names: Sequence[str] | None, settings: Settings) -> Answers:
    """Look up what is known of the models of these names, or of all. Raises SettingsError, StoreError."""
    store = open_store()
    # The knowledge of a server goes on without its store; somebody who asks for what is in it wants to know.
    store.has_records()
    store.close()
    knowledge, library = open_knowledge(), Library(settings.library)
    answers = tuple(_look_up(target, knowledge, library) for target in _targets(names, library))
    knowledge.warn_of_unmatched((), library)
    knowledge.close()
    return Answers(answers=answers)


def _targets(names: Sequence[str] | None, library: Library) -> list[Target]:
    return named_targets(names, library) if names else every_target(library)


def _answer(outcome: ProbeOutcome, knowledge: Knowledge, library: Library) -> Answer:
    if outcome.record is None or outcome.directory is None:
        return Answer(name=outcome.name, problem=outcome.problem)
    known = knowledge.over(outcome.record, outcome.directory.name, outcome.directory.path, library)
    return Answer(name=outcome.name, known=known, was_known=outcome.was_known, phases=outcome.phases)


def _look_up(target: Target, knowledge: Knowledge, library: Library) -> Answer:
    if target.directory is None:
        return Answer(name=target.name, problem=target.problem)
    known = knowledge.of(target.directory.name, target.directory.path, library)
    if not known.findings:
        return Answer(
            name=target.name,
            problem=f"model {target.name!r} was never probed; to ask it: mlxctl probe {target.name}",
        )
    return Answer(name=target.name, known=known, was_known=True)
