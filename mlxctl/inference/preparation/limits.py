"""Limits of request preparation: time, concurrency and queue length."""

from dataclasses import dataclass

SHORT_BYTES = 64 * 1024
"""Shorter requests have a separate queue, so that they never wait for a long one."""

INLINE_BYTES = 8 * 1024
"""Shorter bodies are parsed in the front, and their requests are not pickled.

Measured on the slowest of twenty kinds of bodies, a Responses input of many short items: 3 ms of the event
loop for 8 KB, 5.5 ms for 16 KB.
"""

LOAD_SECONDS = 60.0
"""Longest time for reading a model's tokenizer and template."""

GROWTH_BYTES = 256 * 1024**2
"""A process whose memory has grown by more is replaced, since it does not shrink after a large request."""

MAX_COMMAND_SECONDS = 120
"""Time with one command after which a process ends by itself, in case the front has ended."""


@dataclass(frozen=True, slots=True, kw_only=True)
class QueueLimits:
    """Limits for requests of one size; `niceness` lowers the processes' priority.

    A request may take `cpu_seconds`, and `clock_seconds` of wall time on a busy machine.
    """

    max_workers: int
    cpu_seconds: float
    clock_seconds: float
    max_waiting: int
    niceness: int


SHORT = QueueLimits(max_workers=3, cpu_seconds=5.0, clock_seconds=30.0, max_waiting=512, niceness=0)
LONG = QueueLimits(max_workers=3, cpu_seconds=20.0, clock_seconds=90.0, max_waiting=64, niceness=10)
