"""Histogram of measured values, counted by upper bounds."""

from bisect import bisect_left
from collections.abc import Sequence
from itertools import accumulate

import msgspec


class Distribution(msgspec.Struct, kw_only=True):
    """Number of values up to each bound, and beyond the last.

    `total` is the sum of the values.
    """

    bounds: list[float]
    counts: list[int]
    total: float = 0.0

    @classmethod
    def of(cls, bounds: Sequence[float]) -> "Distribution":
        """Return an empty one; the bounds ascend."""
        return cls(bounds=list(bounds), counts=[0] * (len(bounds) + 1))

    def add(self, value: float) -> None:
        """Count a value; one that equals a bound falls below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.total += value

    def cumulative(self) -> list[tuple[float, int]]:
        """Return each bound with the number of values up to it.

        The last bound is infinite.
        """
        return list(zip((*self.bounds, float("inf")), accumulate(self.counts), strict=True))
