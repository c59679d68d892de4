"""A clock that setting the machine's time does not change."""

import time
from collections.abc import Callable

# Counts while the machine sleeps too; on a Mac, CLOCK_MONOTONIC does.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)


def elapsed_seconds() -> float:
    """Return the seconds since some moment, with those of sleep."""
    return time.clock_gettime(_CLOCK)


class SteadyClock:
    """The unix time at its creation plus the elapsed time since."""

    def __init__(
        self, wall: Callable[[], float] = time.time, elapsed: Callable[[], float] = elapsed_seconds
    ) -> None:
        self._elapsed = elapsed
        self._start = wall() - elapsed()

    def __call__(self) -> float:
        """Return the unix time."""
        return self._start + self._elapsed()
