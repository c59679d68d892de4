"""What is measured, and what the rounds say of it: medians with their spread, ratios of paired rounds, and
when it is noise.
"""

import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "tokens/s", "requests/s", "share", "times", "tokens"]
Better = Literal["lower", "higher"]


Sample = dict[str, float]


@dataclass(frozen=True, slots=True, kw_only=True)
class Figure:
    """One thing that a scenario measures.

    A detail is stored and charted, but has no row of its own in the table.
    """

    name: str
    unit: Unit
    better: Better
    meaning: str
    is_detail: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """Bars to draw: each is a label and the figure behind it."""

    title: str
    bars: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Spread:
    """The middle of some values, and how far they lie apart."""

    median: float
    lowest: float
    highest: float

    @classmethod
    def of(cls, values: Sequence[float]) -> "Spread":
        """Summarize values, of which there must be one."""
        return cls(median=statistics.median(values), lowest=min(values), highest=max(values))

    @classmethod
    def of_ratios(cls, ours: Sequence[float], theirs: Sequence[float]) -> "Spread":
        """Pair the rounds: what disturbs the machine disturbs both halves of a round."""
        return cls.of([one / other for one, other in zip(ours, theirs, strict=True)])

    @property
    def covers_one(self) -> bool:
        """Whether some rounds said that there is no difference, or the opposite one."""
        return self.lowest <= 1.0 <= self.highest


def percentile(values: Sequence[float], share: float) -> float:
    """Return the value below which `share` of the values lie (nearest rank)."""
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def percentile_figures(name: str, what: str) -> tuple[Figure, ...]:
    """Return the figures `name_p50`, `name_p95` and `name_p99`, in seconds."""
    return tuple(
        Figure(name=f"{name}_p{rank}", unit="s", better="lower", meaning=f"{what}, p{rank}")
        for rank in (50, 95, 99)
    )


def percentiles(name: str, values: Sequence[float]) -> dict[str, float]:
    """Return the values of `percentile_figures`; nothing when there are no values."""
    return {f"{name}_p{rank}": percentile(values, rank / 100) for rank in (50, 95, 99)} if values else {}
