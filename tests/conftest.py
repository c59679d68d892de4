"""The same hypothesis examples in every run; no state of the user."""

import os
import signal
import tempfile

from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, deadline=None)
settings.load_profile("repeatable")

# Agents, responses and API keys of the user must not decide an outcome, nor change. Removed at exit.
_STATE = tempfile.TemporaryDirectory(prefix="mlxctl-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name

# A run in the background may have been started with Ctrl-C ignored, which servers and commands would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
