"""Repeatable examples, no state of the user, and time for slow machines."""

import fcntl
import functools
import gc
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from pathlib import Path

import httpx._transports.default
import httpx2._transports.default
import pytest
from httpx._config import DEFAULT_TIMEOUT_CONFIG
from hypothesis import HealthCheck, settings

from tests.server.process import ServerProcess, serving

settings.register_profile(
    "repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("repeatable")

# Models, agents, responses and API keys of the user must not decide an outcome, nor change. Removed at exit.
_STATE = tempfile.TemporaryDirectory(prefix="mlxctl-tests-")
os.environ["XDG_STATE_HOME"] = _STATE.name
os.environ["XDG_DATA_HOME"] = _STATE.name

# Five seconds by default, which a busy machine may need for a short answer.
for _wait in ("connect", "read", "write", "pool"):
    setattr(DEFAULT_TIMEOUT_CONFIG, _wait, 60.0)

# Reading the system's authorities takes a client longer than most of its requests, so clients share them.
for _transport in (httpx._transports.default, httpx2._transports.default):
    _transport.create_ssl_context = functools.cache(_transport.create_ssl_context)

# A run in the background may have been started with Ctrl-C ignored, which servers and commands would inherit.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def demo_server() -> Iterator[ServerProcess]:
    """A server for the demo model."""
    with serving(None) as running:
        yield running


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Let one worker collect after another.

    The first compiles every module for all. What is imported and collected stays alive: looking for garbage
    in it takes a third of the time.
    """
    gc.disable()
    try:
        with Path(__file__).open() as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    """Keep the collected tests out of each collection of garbage."""
    gc.freeze()
