"""Probing of real models, in an engine in this process."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlxctl import demo
from mlxctl.engine import InlineEngine
from mlxctl.engine.client.launcher import Launcher
from mlxctl.models import NamedDirectory
from mlxctl.probe import NullObserver, ProbeObserver, ProbeOutcome, ProbeRun
from mlxctl.probe.targets import ProbeTarget
from mlxctl.settings import EngineSettings
from mlxctl.stores import CapabilityStore, ProbeRecord

_LONGEST_SECONDS = 120.0


def target(path: Path, name: str = "model") -> ProbeTarget:
    """Return a target whose name does not tell the family."""
    return ProbeTarget(name=name, directory=NamedDirectory(name=name, path=path))


def probed(
    targets: Sequence[ProbeTarget],
    store: CapabilityStore,
    *,
    observer: ProbeObserver | None = None,
    launcher: Callable[[EngineSettings], Launcher] = InlineEngine,
    deadline_seconds: float = 60.0,
) -> list[ProbeOutcome]:
    """Probe the targets and return the outcomes."""
    observer = observer or NullObserver()
    run = ProbeRun(
        store, EngineSettings(), observer=observer, launcher=launcher, deadline_seconds=deadline_seconds
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
