"""Alternating rounds and what they say: ratios, and what was aimed at."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Ratio:
    """How one figure compares with another, over rounds in which both were measured one after the other."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, ours: Sequence[float], theirs: Sequence[float]) -> "Ratio":
        """Pair the rounds: what disturbs the machine disturbs both halves of a round."""
        ratios = [one / other for one, other in zip(ours, theirs, strict=True)]
        return cls(statistics.median(ratios), min(ratios), max(ratios))


@dataclass(frozen=True)
class Finding:
    """One line of the result. `bar` is what was aimed at; `at_least` says on which side of it is good."""

    name: str
    ratio: Ratio
    bar: float
    at_least: bool
    detail: str

    @property
    def is_met(self) -> bool:
        """Whether the median reaches the bar."""
        return self.ratio.median >= self.bar if self.at_least else self.ratio.median <= self.bar
