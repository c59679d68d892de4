"""The delay before the engine is started again. Pure."""

from collections import deque

_FIRST_SECONDS = 0.25
_WINDOW_SECONDS = 60.0
_MAX_FREE_DEATHS = 3
# An engine that dies again and again still serves requests in between.
_MAX_DEATH_SECONDS = 4.0


class RestartDelay:
    """Counts the engine's deaths.

    No delay is longer than `max_seconds`; times are those of one monotonic clock.

    - Before it was ready: 0.25 s, twice as long each time until it is.
    - After it was ready: no delay, up to 3 times a minute; beyond that 0.25 s, doubling up to 4 s.
    """

    def __init__(self, *, max_seconds: float) -> None:
        self._max_seconds = max_seconds
        self._num_failed_starts = 0
        self._deaths: deque[float] = deque()

    def after_failed_start(self) -> float:
        """Return the delay after an engine that ended before it was ready."""
        self._num_failed_starts += 1
        return self._doubled(self._num_failed_starts - 1, self._max_seconds)

    def after_death(self, *, now: float) -> float:
        """Return the delay after an engine that was ready and died."""
        self._num_failed_starts = 0
        self._deaths.append(now)
        while self._deaths[0] < now - _WINDOW_SECONDS:
            self._deaths.popleft()
        num_excess = len(self._deaths) - _MAX_FREE_DEATHS
        return (
            self._doubled(num_excess - 1, min(self._max_seconds, _MAX_DEATH_SECONDS))
            if num_excess > 0
            else 0.0
        )

    def _doubled(self, num_times: int, most: float) -> float:
        return min(_FIRST_SECONDS * 2.0 ** min(num_times, 16), most)
