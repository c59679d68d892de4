"""Probing of real models, in an engine in this process."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlxctl.engine import InlineEngine
from mlxctl.engine.client.launcher import Launcher
from mlxctl.ir import ModelFacts
from mlxctl.library import NamedDirectory, demo
from mlxctl.library.fingerprint import fingerprint
from mlxctl.probe import NullObserver, ProbeObserver, ProbeOutcome, ProbeRun
from mlxctl.probe.interview_steps import QUESTIONS_VERSION
from mlxctl.probe.probed_model import versions
from mlxctl.probe.targets import ProbeTarget
from mlxctl.state.settings import EngineSettings
from mlxctl.state.stores import QUESTIONS, CapabilityStore, Finding, ProbeRecord

_LONGEST_SECONDS = 120.0


def target(path: Path, name: str = "model") -> ProbeTarget:
    """Return a target whose name does not tell the family."""
    return ProbeTarget(name=name, directory=NamedDirectory(name=name, path=path))


def ask_only(store: CapabilityStore, model: Path, *questions: str) -> None:
    """Store findings on all other questions, so that only these are asked."""
    others = tuple(
        Finding(question=question, verdict="unknown", reason="not asked here")
        for question in QUESTIONS
        if question not in questions
    )
    store.save(
        ProbeRecord(
            fingerprint=fingerprint(model),
            model=model.name,
            path=str(model),
            probed_at=1.0,
            round=QUESTIONS_VERSION,
            versions=versions(),
            findings=others,
        )
    )


def probed(
    targets: Sequence[ProbeTarget],
    store: CapabilityStore,
    *,
    observer: ProbeObserver | None = None,
    launcher: Callable[[EngineSettings], Launcher] = InlineEngine,
    deadline_seconds: float = 60.0,
    listener: ModelFacts | None = None,
) -> list[ProbeOutcome]:
    """Probe the targets and return the outcomes."""
    observer = observer or NullObserver()
    run = ProbeRun(
        store,
        EngineSettings(),
        observer=observer,
        launcher=launcher,
        deadline_seconds=deadline_seconds,
        find_listener=lambda: listener,
    )
    asyncio.run(asyncio.wait_for(run.probe(targets), _LONGEST_SECONDS))
    return run.outcomes


@pytest.fixture
def store(tmp_path: Path) -> CapabilityStore:
    return CapabilityStore(tmp_path / "capabilities.sqlite")


@pytest.fixture(scope="session")
def demo_record(tmp_path_factory: pytest.TempPathFactory) -> ProbeRecord:
    """Return the record of the demo model."""
    store = CapabilityStore(tmp_path_factory.mktemp("store") / "capabilities.sqlite")
    (outcome,) = probed([target(demo.MODEL_DIR)], store)
    assert outcome.record is not None, outcome.problem
    return outcome.record
