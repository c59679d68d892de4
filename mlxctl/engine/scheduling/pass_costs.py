"""What a pass over a model costs: so much for the pass itself, and so much for each token.

Pure; owned by the engine's thread.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import TypeVar

# Passes kept of each size.
_KEPT_PASSES = 5
# Attention makes a token dearer the more tokens are before it: from here on, contexts are kept apart by
# doublings.
_CONTEXT_TOKENS = 1024
# Share of a pass that is taken for its fixed cost as long as no pass of another size was measured.
_PRIOR_FIXED_SHARE = 0.5
# Sizes nearer to each other than this factor do not tell a fixed cost from a cost per token.
_MIN_SPREAD = 1.5
# A machine is at most so many times slower, or faster, than what was measured of it says.
_MAX_SLOWNESS = 8.0

T = TypeVar("T", float, tuple[float, int])


def lower_quartile(values: Iterable[T]) -> T:
    """Return the value a quarter of the way from the lowest: what disturbs a measurement only ever makes it
    longer.
    """
    ordered = sorted(values)
    return ordered[len(ordered) // 4]


@dataclass(frozen=True, slots=True)
class PassCost:
    """Seconds of a pass: `fixed` whatever its size (weights are read, kernels are launched), and `per_token`."""

    fixed: float
    per_token: float

    def seconds(self, num_tokens: int) -> float:
        """Return how long a pass of so many tokens takes."""
        return self.fixed + self.per_token * num_tokens

    def tokens_within(self, seconds: float, *, maximum: int) -> int:
        """Return how many tokens a pass of this duration may have, 0 where the pass itself takes longer."""
        for_tokens = seconds - self.fixed
        return maximum if for_tokens >= self.per_token * maximum else max(0, int(for_tokens / self.per_token))


class PassCosts:
    """Fits a `PassCost` to measured passes, for short and for long contexts apart.

    Of every size (in doublings) the last few passes are kept, and the line goes through a quick one of each.
    It follows slowly. So that a machine that is slow for a while is believed at once, the line is scaled by
    how much longer than it the last passes took.
    """

    def __init__(self) -> None:
        self.num_observed = 0
        self._recent: deque[tuple[int, float, int]] = deque(maxlen=_KEPT_PASSES)
        self._contexts: dict[int, dict[int, deque[tuple[float, int]]]] = {}
        self._single_row_step: dict[int, dict[int, tuple[float, int]]] = {}

    def observe(self, num_tokens: int, seconds: float, *, context: int = 0) -> None:
        """Take the duration of a pass; `context` tokens of the longest row were computed before it."""
        self.num_observed += 1
        self._recent.append((num_tokens, seconds, context))
        size, context_range = num_tokens.bit_length(), _context_range(context)
        kept = self._contexts.setdefault(context_range, {}).setdefault(size, deque(maxlen=_KEPT_PASSES))
        kept.append((seconds / num_tokens, num_tokens))
        self._single_row_step.setdefault(context_range, {})[size] = lower_quartile(kept)

    def cost(self, *, context: int = 0, step_seconds: float | None = None) -> PassCost | None:
        """Return what a pass costs after so long a context, None before the first was measured.

        `step_seconds`, the duration of a decode step, is what the fixed cost is at most while only one size
        was measured.
        """
        line = self._line(context, step_seconds)
        if line is None:
            return None
        slowness = self._slowness(context, line)
        return PassCost(line.fixed * slowness, line.per_token * slowness)

    def _slowness(self, context: int, line: PassCost) -> float:
        """Return how many times longer than the line the last passes took, of those after a context of this
        range.
        """
        context_range = _context_range(context)
        recent = [
            seconds / line.seconds(num)
            for num, seconds, after in self._recent
            if _context_range(after) == context_range
        ]
        return min(max(median_low(recent), 1 / _MAX_SLOWNESS), _MAX_SLOWNESS) if recent else 1.0

    def _line(self, context: int, step_seconds: float | None) -> PassCost | None:
        context_range, found, fixed = _context_range(context), None, step_seconds
        # The farthest context first: each range is where the next one, which may know a single size, has its
        # fixed cost from.
        for other in sorted(
            self._single_row_step, key=lambda other: abs(other - context_range), reverse=True
        ):
            found = _fits([(num, rate * num) for rate, num in self._single_row_step[other].values()], fixed)
            fixed = found.fixed
        return found

    @property
    def largest(self) -> int:
        """Tokens of the largest pass that was measured, 0 before the first."""
        return max(self._sizes, default=0)

    @property
    def has_one_size(self) -> bool:
        """Whether all measured passes were so alike that what a token costs is a guess."""
        return self.largest < _MIN_SPREAD * min(self._sizes, default=1)

    @property
    def _sizes(self) -> list[int]:
        return [num for sizes in self._single_row_step.values() for _, num in sizes.values()]


def _context_range(context: int) -> int:
    return (context // _CONTEXT_TOKENS).bit_length()


def _fits(points: Sequence[tuple[int, float]], prior_fixed: float | None) -> PassCost:
    """Return the line through `points` (tokens, seconds), by least squares of the relative errors; no part of
    it is negative.
    """
    numbers = [num for num, _ in points]
    if max(numbers) < _MIN_SPREAD * min(numbers):
        num, seconds = sum(numbers) / len(points), sum(seconds for _, seconds in points) / len(points)
        fixed = min(_PRIOR_FIXED_SHARE * seconds, prior_fixed if prior_fixed is not None else seconds)
        return PassCost(fixed, (seconds - fixed) / num)
    weights = [1 / seconds**2 for _, seconds in points]
    total = sum(weights)
    mean_num = sum(weight * num for weight, (num, _) in zip(weights, points, strict=True)) / total
    mean_seconds = sum(weight * seconds for weight, (_, seconds) in zip(weights, points, strict=True)) / total
    slope = sum(
        w * (num - mean_num) * (seconds - mean_seconds)
        for w, (num, seconds) in zip(weights, points, strict=True)
    )
    per_token = slope / sum(w * (num - mean_num) ** 2 for w, num in zip(weights, numbers, strict=True))
    fixed = mean_seconds - per_token * mean_num
    # No pass costs less than a pass itself, so the shortest one bounds what that is, however long others were
    # delayed.
    fixed = min(max(fixed, 0.0), min(seconds for _, seconds in points))
    return PassCost(fixed, max(mean_seconds - fixed, 0.0) / mean_num)
