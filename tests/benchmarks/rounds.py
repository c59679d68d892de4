"""Ratios of alternating rounds, and targets for them."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """Ratio of two figures over paired rounds."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> "Ratio":
        """Return ratios of paired rounds, which share machine disturbances."""
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))


@dataclass(frozen=True)
class Finding:
    """One line of the result.

    `bar` is the target; `at_least` tells whether higher or lower is better.
    """

    name: str
    ratio: Ratio
    bar: float
    at_least: bool
    detail: str

    @property
    def is_met(self) -> bool:
        """Whether the median reaches the target."""
        return self.ratio.median >= self.bar if self.at_least else self.ratio.median <= self.bar
