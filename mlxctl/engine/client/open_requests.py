"""Unfinished requests of the engine, and the wait for new ones.

Event-loop thread only.
"""

import asyncio
import time
from collections import Counter
from typing import assert_never

from mlxctl.engine.client.pending_jobs import PendingJobs, PendingQueries
from mlxctl.engine.client.token_stream import TokenStream
from mlxctl.engine.wire.jobs import JobReport
from mlxctl.engine.wire.reports import QueryReport, Step
from mlxctl.ir.errors import MlxctlError

MIN_WAIT_SECONDS, MAX_WAIT_SECONDS = 1.0, 60.0
_UNMEASURED_REQUEST_SECONDS = 2.0
# Weight of the newest request in the mean.
_NEWEST_WEIGHT = 0.2
Answer = Step | JobReport | QueryReport
"""A report of the engine on a request."""


class OpenRequests:
    """Delivers the engine's reports to streams, jobs and queries.

    `last_delivery` is the time of the last report on a stream or job, in seconds of the monotonic clock.
    """

    def __init__(self, *, num_rows: int) -> None:
        self.pace = QueuePace(num_rows=num_rows)
        self.jobs = PendingJobs(on_empty=self._note_end)
        self.queries = PendingQueries()
        self.last_delivery = 0.0
        self._streams: dict[int, TokenStream] = {}
        self._is_idle = asyncio.Event()
        self._is_idle.set()

    @property
    def num_open(self) -> int:
        """Open sequences and jobs."""
        return len(self._streams) + len(self.jobs)

    @property
    def num_running(self) -> int:
        """Open sequences that are not paused, and jobs."""
        return sum(not stream.is_paused for stream in self._streams.values()) + len(self.jobs)

    @property
    def num_waiting(self) -> int:
        """Sequences that have not started, and jobs."""
        return sum(not stream.has_started for stream in self._streams.values()) + len(self.jobs)

    def has_share(self, fairness_key: str, num_places: int) -> bool:
        """Whether a caller may still queue although all places are taken.

        It may while it has fewer than its share of the places, so the queue grows to at most twice its
        places.
        """
        waiting = Counter(stream.fairness_key for stream in self._streams.values() if not stream.has_started)
        share = num_places // len(waiting.keys() | {fairness_key})
        return waiting[fairness_key] < share and self.num_waiting < 2 * num_places

    def begin(self) -> None:
        """Prepare for one more sequence or job."""
        if not self.num_running:
            self.note_delivery()
        self._is_idle.clear()

    def add(self, stream: TokenStream) -> None:
        """Add a sequence that was submitted."""
        self._streams[stream.sequence_id] = stream

    def remove(self, stream: TokenStream) -> None:
        """Remove a sequence. Idempotent."""
        self._streams.pop(stream.sequence_id, None)
        self.pace.ended(stream.sequence_id, now=time.monotonic())
        self._note_end()

    async def wait_idle(self) -> None:
        """Wait until no sequence or job is open."""
        await self._is_idle.wait()

    def take(self, answer: Answer) -> None:
        """Deliver a report to its request."""
        match answer:
            case Step():
                self._deliver(answer)
            case JobReport():
                self.note_delivery()
                self.jobs.take(answer)
            case QueryReport():
                self.queries.take(answer)
            case _:
                assert_never(answer)

    def fail_all(self, error: MlxctlError) -> None:
        """Fail everything that is open."""
        streams, self._streams = self._streams, {}
        self.pace.clear()
        self.jobs.fail_all(error)
        self._is_idle.set()
        for stream in streams.values():
            stream.fail(error)
        self.queries.fail_all(error)

    def note_delivery(self) -> None:
        """Record that the engine has delivered something, for the watchdog."""
        self.last_delivery = time.monotonic()

    def _deliver(self, step: Step) -> None:
        self.note_delivery()
        for update in step.rows:
            stream = self._streams.get(update.sequence_id)
            # A row may have been cancelled before its step was received.
            if stream is not None:
                if not stream.has_started:
                    self.pace.started(stream.sequence_id, now=self.last_delivery)
                stream.put(update)
                if stream.is_closed:
                    self.remove(stream)

    def _note_end(self) -> None:
        if not self.num_open:
            self._is_idle.set()


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
            self._mean_seconds = mean + _NEWEST_WEIGHT * (now - began - mean)

    def clear(self) -> None:
        """Forget the open sequences, which ended with their engine."""
        self._started.clear()

    def wait_seconds(self, num_waiting: int, *, now: float) -> float:
        """Estimate how long a request after `num_waiting` others would wait.

        The result is between MIN_WAIT_SECONDS and MAX_WAIT_SECONDS. A request is assumed to take the mean
        time of the ended ones, or longer if the open ones already have.
        """
        ages = [now - began for began in self._started.values()]
        mean = _UNMEASURED_REQUEST_SECONDS if self._mean_seconds is None else self._mean_seconds
        seconds = max(mean, sum(ages) / len(ages) if ages else 0.0)
        return min(max(MIN_WAIT_SECONDS, num_waiting * seconds / self.num_rows), MAX_WAIT_SECONDS)
