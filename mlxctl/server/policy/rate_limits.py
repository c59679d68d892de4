"""Sliding-window rate limits per key, and per key and model.

Event-loop thread only.
"""

import time
from collections import Counter, OrderedDict, deque
from collections.abc import Callable
from dataclasses import dataclass, field

from mlxctl.ir.errors import RateLimited
from mlxctl.ir.policy import Limits

WINDOW_SECONDS = 60.0
BURST_SECONDS = 1.0
MAX_BUCKETS = 10_000
"""Most callers, or pairs of caller and model, whose usage is kept; idle ones are dropped first."""

# Time until an open request may end, for Retry-After. Nothing better is known.
_OPEN_REQUEST_SECONDS = 1.0

BucketId = tuple[str, ...]
"""A caller, or a caller and a model."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RateLimitState:
    """The remaining requests and tokens of a bucket.

    None without a limit. Reset times are in seconds.
    """

    limit_requests: int | None = None
    remaining_requests: int = 0
    reset_requests_seconds: float = 0.0
    limit_tokens: int | None = None
    remaining_tokens: int = 0
    reset_tokens_seconds: float = 0.0


@dataclass(slots=True)
class _BucketUsage:
    """Starts of requests, tokens of ended requests, and open requests."""

    starts: deque[float] = field(default_factory=deque)
    spent: deque[tuple[float, int]] = field(default_factory=deque)
    num_spent: int = 0
    num_reserved: int = 0
    num_open: int = 0

    def expire(self, now: float) -> None:
        """Drop what left the window."""
        while self.starts and self.starts[0] <= now - WINDOW_SECONDS:
            self.starts.popleft()
        while self.spent and self.spent[0][0] <= now - WINDOW_SECONDS:
            self.num_spent -= self.spent.popleft()[1]

    @property
    def is_idle(self) -> bool:
        """Whether nothing is open or in the window."""
        return not (self.starts or self.spent or self.num_open)

    def seconds_until(self, limits: Limits, num_tokens: int, now: float) -> tuple[float, str]:
        """Return the seconds until a request is admitted, and the limiting limit."""
        return max(
            (self._until_request(limits.requests_per_minute, WINDOW_SECONDS, now), "requests per minute"),
            (self._until_request(limits.burst, BURST_SECONDS, now), "requests per second"),
            (self._until_tokens(limits.tokens_per_minute, num_tokens, now), "tokens per minute"),
            (
                _OPEN_REQUEST_SECONDS if limits.concurrent and self.num_open >= limits.concurrent else 0.0,
                "concurrent requests",
            ),
        )

    def _until_request(self, limit: int | None, seconds: float, now: float) -> float:
        if not limit or len(self.starts) < limit:
            return 0.0
        return max(0.0, self.starts[-limit] + seconds - now)

    def _until_tokens(self, limit: int | None, num_tokens: int, now: float) -> float:
        if not limit:
            return 0.0
        excess = self.num_spent + self.num_reserved + min(max(num_tokens, 1), limit) - limit
        if excess <= 0:
            return 0.0
        for at, amount in self.spent:
            excess -= amount
            if excess <= 0:
                return at + WINDOW_SECONDS - now
        return _OPEN_REQUEST_SECONDS

    def state(self, limits: Limits, now: float) -> RateLimitState:
        """Return the remaining requests and tokens."""
        requests, tokens = limits.requests_per_minute or None, limits.tokens_per_minute or None
        return RateLimitState(
            limit_requests=requests,
            remaining_requests=max(0, (requests or 0) - len(self.starts)),
            reset_requests_seconds=self.starts[-1] + WINDOW_SECONDS - now if self.starts else 0.0,
            limit_tokens=tokens,
            remaining_tokens=max(0, (tokens or 0) - self.num_spent - self.num_reserved),
            reset_tokens_seconds=self.spent[-1][0] + WINDOW_SECONDS - now if self.spent else 0.0,
        )


class Reservation:
    """An admitted request: `settle` it once with the tokens that it took."""

    def __init__(
        self, usages: tuple[tuple[_BucketUsage, int], ...], state: RateLimitState, clock: Callable[[], float]
    ) -> None:
        self.state = state
        self._usages = usages
        self._clock = clock

    def settle(self, num_tokens: int) -> None:
        """Count the tokens of the ended request.

        They replace the reserved ones. Idempotent.
        """
        usages, self._usages = self._usages, ()
        now = self._clock()
        for usage, num_reserved in usages:
            usage.num_open -= 1
            usage.num_reserved -= num_reserved
            if num_tokens:
                usage.spent.append((now, num_tokens))
                usage.num_spent += num_tokens


class RateLimiter:
    """Admits requests within limits that may change between any two of them.

    A request counts from its start. Its `max_tokens` are reserved until it ends; then the tokens that it took
    count for a minute. No more than the limit is reserved, so that each request fits at some time.
    `num_refused` counts refused requests by the limit that they reached.
    """

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._usages: OrderedDict[BucketId, _BucketUsage] = OrderedDict()
        self.num_refused: Counter[str] = Counter()

    def admit(self, buckets: dict[BucketId, Limits], *, max_tokens: int) -> Reservation:
        """Admit a request into all its buckets.

        Raises RateLimited, with the state of the fullest.
        """
        now = self._clock()
        usages = [(self._usage(bucket, now), limits) for bucket, limits in buckets.items()]
        waits = [usage.seconds_until(limits, max_tokens, now) for usage, limits in usages]
        seconds, limit = max(waits)
        if seconds > 0:
            self.num_refused[limit.replace(" ", "_")] += 1
            usage, limits = usages[waits.index((seconds, limit))]
            raise RateLimited(limit, retry_after_seconds=seconds, state=usage.state(limits, now))
        reserved = []
        for usage, limits in usages:
            amount = min(max_tokens, limits.tokens_per_minute) if limits.tokens_per_minute else 0
            if limits.requests_per_minute or limits.burst:
                usage.starts.append(now)
            usage.num_open += 1
            usage.num_reserved += amount
            reserved.append((usage, amount))
        states = (usage.state(limits, now) for usage, limits in usages)
        return Reservation(tuple(reserved), min(states, key=_share_left), self._clock)

    def _usage(self, bucket: BucketId, now: float) -> _BucketUsage:
        usage = self._usages.setdefault(bucket, _BucketUsage())
        self._usages.move_to_end(bucket)
        usage.expire(now)
        if len(self._usages) > MAX_BUCKETS:
            self._drop_idle(now)
        return usage

    def _drop_idle(self, now: float) -> None:
        """Drop the longest unused bucket, unless it has open requests."""
        oldest, usage = next(iter(self._usages.items()))
        usage.expire(now)
        if usage.num_open:
            self._usages.move_to_end(oldest)
        else:
            del self._usages[oldest]


def _share_left(state: RateLimitState) -> float:
    shares = [
        left / limit
        for left, limit in (
            (state.remaining_requests, state.limit_requests),
            (state.remaining_tokens, state.limit_tokens),
        )
        if limit
    ]
    return min(shares, default=2.0)
