"""Failure conditions: `ttft_p50>+10%`, `tokens_per_second_x8<-5%`, `itl_p99>50ms`."""

import difflib
import re
from dataclasses import dataclass
from typing import Literal

from mlxctl.bench.comparison import Comparison, FigureChange
from mlxctl.bench.formatting import format_value
from mlxctl.ir.errors import UsageError

_FORM = re.compile(
    r"\s*(?P<name>[A-Za-z]\w*)\s*(?P<sign>>=|<=|>|<)\s*(?P<number>[+-]?\d+(?:\.\d+)?)\s*(?P<unit>%|ms|s)?\s*"
)
_HELP = "write FIGURE>+10% or FIGURE<-5% for a change, FIGURE>200ms or FIGURE<50 for a value"
_FACTORS = {"ms": 1e-3, "s": 1.0, "%": 1e-2, None: 1.0}


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """A limit for a figure's relative change or its new value."""

    text: str
    name: str
    sign: Literal[">", ">=", "<", "<="]
    limit: float
    is_relative: bool
    is_duration: bool

    @classmethod
    def parse(cls, text: str) -> "Condition":
        """Parse a condition. Raises UsageError with the syntax."""
        match = _FORM.fullmatch(text)
        if match is None:
            raise UsageError(f"condition {text!r} cannot be read: {_HELP}")
        unit = match["unit"]
        return cls(
            text=text.strip(),
            name=match["name"],
            sign=match["sign"],  # type: ignore[arg-type]  # restricted by the pattern
            limit=float(match["number"]) * _FACTORS[unit],
            is_relative=unit == "%",
            is_duration=unit in ("ms", "s"),
        )

    def check(self, comparison: Comparison) -> "ConditionResult":
        """Return whether the comparison meets the condition.

        Raises UsageError for an unknown figure or a wrong unit.
        """
        change = comparison.find(self.name)
        if change is None:
            raise UsageError(_unknown(self, comparison))
        if self.is_duration and change.unit != "s":
            raise UsageError(
                f"condition {self.text!r}: {self.name} is measured in {change.unit}, not in seconds"
            )
        value = change.change if self.is_relative else change.after
        if value is None:
            raise UsageError(
                f"condition {self.text!r}: {self.name} was 0 before, so there is no relative change"
            )
        is_met = _holds(value, self.sign, self.limit)
        # Noise only excuses relative changes, not values beyond a limit.
        return ConditionResult(
            condition=self,
            change=change,
            is_met=is_met,
            is_noise=self.is_relative and change.verdict == "noise",
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionResult:
    """Result of a condition for one comparison."""

    condition: Condition
    change: FigureChange
    is_met: bool
    is_noise: bool

    @property
    def fails(self) -> bool:
        """Whether the condition is met beyond noise."""
        return self.is_met and not self.is_noise

    @property
    def line(self) -> str:
        """The result as one line of text."""
        change = self.change
        moved = f" ({change.change:+.1%})" if change.change is not None else ""
        values = f"{format_value(change.before, change.unit)} to {format_value(change.after, change.unit)}"
        facts = f"{change.name} went from {values}{moved}"
        if self.is_met and self.is_noise:
            return f"noise  {self.condition.text}: {facts}, but the rounds overlap"
        return f"{'FAILED' if self.fails else 'ok    '} {self.condition.text}: {facts}"


def _holds(value: float, sign: str, limit: float) -> bool:
    match sign:
        case ">":
            return value > limit
        case ">=":
            return value >= limit
        case "<":
            return value < limit
        case _:
            return value <= limit


def _unknown(condition: Condition, comparison: Comparison) -> str:
    names = [change.name for change in comparison.changes]
    close = difflib.get_close_matches(condition.name, names, n=1)
    offer = f"did you mean {close[0]}?" if close else f"there are {', '.join(names)}"
    return f"condition {condition.text!r}: both results have no figure {condition.name!r}; {offer}"
