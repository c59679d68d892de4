"""Finds out what a model can do by having it generate, and says what proves it.

Guesses nothing; a failure is never a no.
"""

from mlxctl.probe.observer import SilentWatcher, Watcher
from mlxctl.probe.outcome import ProbeOutcome
from mlxctl.probe.run import ProbeRun

__all__ = ["ProbeOutcome", "ProbeRun", "SilentWatcher", "Watcher"]
