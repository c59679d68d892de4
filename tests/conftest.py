"""The same hypothesis examples in every run; no state of the user."""

import os
import tempfile

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Agents, responses and API keys of the user must not decide an outcome, nor change. Removed at exit.
_STATE = tempfile.TemporaryDirectory(prefix="mlxctl-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
