"""Circuit breaker of one remote. Pure, apart from the clock."""

import time
from collections import Counter
from collections.abc import Callable
from typing import Literal, get_args

BreakerState = Literal["closed", "open", "half_open"]
BREAKER_STATES: tuple[BreakerState, ...] = get_args(BreakerState)

MAX_FAILURES = 3
"""Failures in a row that open a breaker."""
PAUSE_SECONDS = 15.0
"""Time for which an open breaker lets nothing through."""


class Breaker:
    """Lets requests through while a server answers.

    Closed it lets all through. MAX_FAILURES failures in a row open it. After PAUSE_SECONDS it is half open:
    one request is the trial that closes or opens it. `changes` counts the states that it came to.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self.state: BreakerState = "closed"
        self.changes: Counter[BreakerState] = Counter()
        self._clock = clock
        self._num_failures = 0
        self._opened_at = 0.0

    @property
    def lets_through(self) -> bool:
        """Whether `take` would let a request through."""
        paused = self._clock() - self._opened_at < PAUSE_SECONDS
        return self.state == "closed" or (self.state == "open" and not paused)

    @property
    def retry_after_seconds(self) -> float:
        """Time until the next trial."""
        return max(1.0, self._opened_at + PAUSE_SECONDS - self._clock())

    def take(self) -> bool:
        """Let one request through, if possible; `succeed`, `fail` or `give_up` must follow."""
        if not self.lets_through:
            return False
        if self.state == "open":
            self._change("half_open")
        return True

    def succeed(self) -> None:
        """Record an answer."""
        self._num_failures = 0
        if self.state != "closed":
            self._change("closed")

    def fail(self) -> None:
        """Record a failure."""
        self._num_failures += 1
        if self.state == "half_open" or (self.state == "closed" and self._num_failures >= MAX_FAILURES):
            self._opened_at = self._clock()
            self._change("open")

    def give_up(self) -> None:
        """Record a request that ended without saying anything about the server."""
        if self.state == "half_open":
            # The pause is over: the next request is the trial.
            self._change("open")

    def _change(self, state: BreakerState) -> None:
        self.state = state
        self.changes[state] += 1
