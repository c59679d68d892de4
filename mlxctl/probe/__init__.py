"""Finds out what a model can do by having it generate, and says what proves it. Guesses nothing; a failure is never a no."""

from mlxctl.probe.outcome import ProbeOutcome
from mlxctl.probe.run import ProbeRun
from mlxctl.probe.watcher import SilentWatcher, Watcher

__all__ = ["ProbeOutcome", "ProbeRun", "SilentWatcher", "Watcher"]
