"""Models that are probed for real, in an engine in this process."""

import asyncio
from collections.abc import Callable, Sequence
from pathlib import Path

import pytest

from mlxctl import demo
from mlxctl.engine import InlineEngine
from mlxctl.engine.client.launcher import Launcher
from mlxctl.models import NamedDirectory
from mlxctl.probe import ProbeOutcome, ProbeRun, SilentWatcher, Watcher
from mlxctl.probe.targets import Target
from mlxctl.settings import EngineSettings
from mlxctl.stores import CapabilityStore, ProbeRecord

_LONGEST_SECONDS = 120.0


def target(path: Path, name: str = "model") -> Target:
    """A model under a name that says nothing of what it is."""
    return Target(name=name, directory=NamedDirectory(name=name, path=path))


def probed(
    targets: Sequence[Target],
    store: CapabilityStore,
    *,
    watcher: Watcher | None = None,
    launcher: Callable[[EngineSettings], Launcher] = InlineEngine,
    deadline_seconds: float = 60.0,
) -> list[ProbeOutcome]:
    """Probe them all and return what came of it."""
    watcher = watcher or SilentWatcher()
    run = ProbeRun(
        store, EngineSettings(), watcher=watcher, launcher=launcher, deadline_seconds=deadline_seconds
    )
    asyncio.run(asyncio.wait_for(run.probe(targets), _LONGEST_SECONDS))
    return run.outcomes


@pytest.fixture
def store(tmp_path: Path) -> CapabilityStore:
    return CapabilityStore(tmp_path / "capabilities.sqlite")


@pytest.fixture(scope="session")
def demo_record(tmp_path_factory: pytest.TempPathFactory) -> ProbeRecord:
    """What probing the demo model finds."""
    store = CapabilityStore(tmp_path_factory.mktemp("store") / "capabilities.sqlite")
    (outcome,) = probed([target(demo.MODEL_DIR)], store)
    assert outcome.record is not None, outcome.problem
    return outcome.record
