"""How long the preparation of a request may take, how many are prepared at once, and how many wait."""

from dataclasses import dataclass

SHORT_BYTES = 64 * 1024
"""Requests of fewer bytes are prepared apart from the others, so that they never wait for a long one."""

INLINE_BYTES = 8 * 1024
"""Bodies of fewer bytes are parsed in place: handing them to another process takes as long."""

LOAD_SECONDS = 60.0
"""How long reading a model's tokenizer and template may take."""

GROWTH_BYTES = 256 * 1024**2
"""A process whose memory has grown by so much is replaced: it would keep what one large request needed."""

MAX_COMMAND_SECONDS = 120
"""After so long at one thing a process ends by itself, in case that nobody is left to end it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Limits of the requests of one size: processes, seconds for each request, requests that wait, how nice
    they are to others.

    A request may take `cpu_seconds`, and several times as long by the clock on a machine that has other
    things to do.
    """

    max_workers: int
    cpu_seconds: float
    clock_seconds: float
    max_waiting: int
    niceness: int


SHORT = QueueLimits(max_workers=3, cpu_seconds=5.0, clock_seconds=30.0, max_waiting=512, niceness=0)
LONG = QueueLimits(max_workers=3, cpu_seconds=20.0, clock_seconds=90.0, max_waiting=64, niceness=10)
