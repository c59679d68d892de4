"""Counts and latency distributions of ended requests by model. Event-loop thread only."""

from bisect import bisect_left
from collections import Counter
from itertools import accumulate

from mlxctl.inference.request_entry import RequestView

FIRST_TOKEN_SECONDS = (0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0)
NEXT_TOKEN_SECONDS = (0.005, 0.01, 0.02, 0.03, 0.05, 0.075, 0.1, 0.2, 0.5, 1.0)
REQUEST_SECONDS = (0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0, 600.0)


class Distribution:
    """Histogram: number of values up to each of `bounds`, and their sum."""

    __slots__ = ("_counts", "bounds", "total")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self.bounds = bounds
        self.total = 0.0
        self._counts = [0] * (len(bounds) + 1)

    def add(self, value: float) -> None:
        """Count a value; one that equals a bound falls below it."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[float, int]]:
        """Return each bound with the number of values up to it.

        The last bound is infinite.
        """
        return list(zip((*self.bounds, float("inf")), accumulate(self._counts), strict=True))


class ModelTotals:
    """Ended requests of one model; `ends` counts them by final state.

    `next_token` has one value per request: its mean time between tokens, in seconds.
    """

    __slots__ = ("ends", "first_token", "next_token", "num_cached", "num_generated", "num_prompt", "whole")

    def __init__(self) -> None:
        self.ends: Counter[str] = Counter()
        self.num_prompt = self.num_cached = self.num_generated = 0
        self.first_token = Distribution(FIRST_TOKEN_SECONDS)
        self.next_token = Distribution(NEXT_TOKEN_SECONDS)
        self.whole = Distribution(REQUEST_SECONDS)

    def add(self, view: RequestView) -> None:
        """Count an ended request."""
        self.ends[view.state] += 1
        self.num_prompt += view.num_read_tokens
        self.num_cached += view.num_cached_tokens
        self.num_generated += view.num_generated_tokens
        self.whole.add(view.age_seconds)
        if view.first_token_seconds is not None:
            self.first_token.add(view.first_token_seconds)
        if view.tokens_per_second:
            self.next_token.add(1 / view.tokens_per_second)
