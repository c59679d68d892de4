"""Timed phases of a request, for traces."""

import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import NamedTuple

MAX_PHASES = 64
"""Number of phases of one request that are recorded."""


class Phase(NamedTuple):
    """A part of the work on a request; times are unix seconds."""

    name: str
    started: float
    ended: float


recorded_phases: ContextVar[list[Phase] | None] = ContextVar("recorded_phases", default=None)
"""The phases of the request that this task or process works on; None where they are not recorded."""


@contextmanager
def timed(name: str) -> Iterator[None]:
    """Record the block as a phase of the request."""
    if recorded_phases.get() is None:
        yield
        return
    started = time.time()
    try:
        yield
    finally:
        add_phases([Phase(name, started, time.time())])


@contextmanager
def recording() -> Iterator[list[Phase]]:
    """Record the phases of the block, and return their list."""
    phases: list[Phase] = []
    token = recorded_phases.set(phases)
    try:
        yield phases
    finally:
        recorded_phases.reset(token)


def add_phases(phases: Iterable[Phase]) -> None:
    """Add phases of another process, if they are recorded here."""
    if (recorded := recorded_phases.get()) is not None:
        recorded += list(phases)[: MAX_PHASES - len(recorded)]
