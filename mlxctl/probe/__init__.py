"""Tests of a model's capabilities by generating with it, with evidence.

Runs in the process of the command, with its own engine. Nothing is guessed, and a failed test is "unknown",
never "no".
"""

from mlxctl.probe.observer import NullObserver, ProbeObserver
from mlxctl.probe.run import ProbeOutcome, ProbeRun

__all__ = ["NullObserver", "ProbeObserver", "ProbeOutcome", "ProbeRun"]
