"""Speed of the queue: duration and expected wait of requests.

Pure.
"""

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 1.0, 60.0
_UNMEASURED_SECONDS = 2.0
# Weight of the newest request in the mean.
_WEIGHT = 0.2


class QueuePace:
    """Estimates waits from the durations of requests, from first report to end."""

    def __init__(self, *, num_rows: int) -> None:
        self.num_rows = num_rows
        self._started: dict[int, float] = {}
        self._mean_seconds: float | None = None

    def started(self, sequence_id: int, *, now: float) -> None:
        """Note that a sequence has a row."""
        self._started[sequence_id] = now

    def ended(self, sequence_id: int, *, now: float) -> None:
        """Note that a sequence has ended.

        One that never started does not count.
        """
        began = self._started.pop(sequence_id, None)
        if began is not None:
            mean = now - began if self._mean_seconds is None else self._mean_seconds
            self._mean_seconds = mean + _WEIGHT * (now - began - mean)

    def clear(self) -> None:
        """Forget the open sequences, which ended with their engine."""
        self._started.clear()

    def wait_seconds(self, num_waiting: int, *, now: float) -> float:
        """Return how long a request behind `num_waiting` others would wait.

        The bounds above apply. A request takes the mean of the ended ones, or longer if the open ones already
        have.
        """
        ages = [now - began for began in self._started.values()]
        mean = _UNMEASURED_SECONDS if self._mean_seconds is None else self._mean_seconds
        seconds = max(mean, sum(ages) / len(ages) if ages else 0.0)
        return min(max(MIN_WAIT_SECONDS, num_waiting * seconds / self.num_rows), MAX_WAIT_SECONDS)
