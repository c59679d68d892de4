"""Figures, medians with spread, and ratios of paired rounds."""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "tokens/s", "requests/s", "jobs/h", "share", "times", "tokens"]
Better = Literal["lower", "higher"]


Sample = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One measured quantity of a scenario.

    A detail is stored and charted but not listed in the table.
    """

    name: str
    unit: Unit
    better: Better
    meaning: str
    is_detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A bar chart: pairs of label and figure name."""

    title: str
    bars: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """Median, minimum and maximum of some values."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarize values; at least one is required."""
        return cls(median=statistics.median(values), lowest=min(values), highest=max(values))

    @classmethod
    def of_ratios(cls, ours: Sequence[float], theirs: Sequence[float]) -> "Spread":
        """Return ratios of paired rounds, which share machine disturbances."""
        return cls.of([one / other for one, other in zip(ours, theirs, strict=True)])

    @property
    def covers_one(self) -> bool:
        """Whether the ratios lie on both sides of 1."""
        return self.lowest <= 1.0 <= self.highest


def percentile(values: Sequence[float], share: float) -> float:
    """Return a percentile by nearest rank; `share` is 0 to 1."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def percentile_figures(name: str, what: str) -> tuple[Figure, ...]:
    """Return the figures `name_p50`, `name_p95` and `name_p99`, in seconds."""
    return tuple(
        Figure(name=f"{name}_p{rank}", unit="s", better="lower", meaning=f"{what}, p{rank}")
        for rank in (50, 95, 99)
    )


def percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return the values for `percentile_figures`; empty without values."""
    return {f"{name}_p{rank}": percentile(values, rank / 100) for rank in (50, 95, 99)} if values else {}
