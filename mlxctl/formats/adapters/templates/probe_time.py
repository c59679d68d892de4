"""CPU time that all probes of one model's chat templates share.

Each rendering has a budget of steps, but a model is probed with about a hundred of them.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

PROBE_SECONDS = 5.0

_ends_at: ContextVar[float | None] = ContextVar("probes_end_at", default=None)


class ProbesTooSlow(Exception):
    """The probes of a model have used up their CPU time."""


@contextmanager
def limited_probes() -> Iterator[None]:
    """Limit the CPU time of all renderings inside together.

    They may take PROBE_SECONDS of this thread; later ones raise ProbesTooSlow.
    """
    token = _ends_at.set(time.thread_time() + PROBE_SECONDS)
    try:
        yield
    finally:
        _ends_at.reset(token)


def check_probe_time() -> None:
    """Raise ProbesTooSlow inside `limited_probes` when its time is over."""
    ends_at = _ends_at.get()
    if ends_at is not None and time.thread_time() >= ends_at:
        raise ProbesTooSlow(f"its probes take more than {PROBE_SECONDS:g} s of CPU time")
