"""Cost model of prefill passes: fixed and per-token costs.

Pure; owned by the MLX thread.
"""

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import TypeVar

# Measurements kept for each size.
_MAX_MEASURED_PASSES = 5
# Attention makes tokens after a longer context slower: from here on, each doubling is a separate range.
_CONTEXT_TOKENS = 1024
# Assumed fixed part of a pass until a second size was measured. With experts it is much larger than a decode
# step, which reads some of them.
_PRIOR_FIXED_SHARE = 0.5
# Sizes within this factor cannot separate the fixed part from the part per token.
_MIN_SPREAD = 1.5
# Bound of the ratio between the last passes and the fitted line.
_MAX_SLOWNESS = 8.0

T = TypeVar("T", float, tuple[float, int])


def lower_quartile(values: Iterable[T]) -> T:
    """Return the lower quartile: disturbances only make a measurement longer."""
    ordered = sorted(values)
    return ordered[len(ordered) // 4]


@dataclass(frozen=True, slots=True)
class PassCost:
    """Seconds of a pass: `fixed` (reading weights, launching kernels) and `per_token`."""

    fixed: float
    per_token: float

    def seconds(self, num_tokens: int) -> float:
        """Return the duration of a pass of `num_tokens`."""
        return self.fixed + self.per_token * num_tokens

    def tokens_within(self, seconds: float, *, maximum: int) -> int:
        """Return the tokens of a pass of this duration.

        0 if the fixed part takes longer.
        """
        for_tokens = seconds - self.fixed
        if for_tokens < 0:
            return 0
        return maximum if for_tokens >= self.per_token * maximum else int(for_tokens / self.per_token)


class PassCosts:
    """Fits a PassCost to measured passes for each context range.

    The last passes of each size (in doublings) are kept, and the line is fitted to their lower quartiles. It
    adapts slowly; to follow a machine that is slow for a while, it is scaled by the ratio of the last passes
    to it.
    """

    def __init__(self) -> None:
        self._recent: deque[tuple[int, float, int]] = deque(maxlen=_MAX_MEASURED_PASSES)
        self._contexts: dict[int, dict[int, deque[tuple[float, int]]]] = {}
        self._quartiles: dict[int, dict[int, tuple[float, int]]] = {}

    def observe(self, num_tokens: int, seconds: float, *, context: int = 0) -> None:
        """Add the duration of a pass.

        `context` is the number of tokens before it in the longest row.
        """
        self._recent.append((num_tokens, seconds, context))
        size, context_range = num_tokens.bit_length(), _context_range(context)
        measured = self._contexts.setdefault(context_range, {}).setdefault(
            size, deque(maxlen=_MAX_MEASURED_PASSES)
        )
        measured.append((seconds / num_tokens, num_tokens))
        self._quartiles.setdefault(context_range, {})[size] = lower_quartile(measured)

    def cost(self, *, context: int = 0) -> PassCost | None:
        """Return the cost of a pass after `context` tokens.

        None before the first measurement.
        """
        line = self._line(context)
        if line is None:
            return None
        slowness = self._slowness(context, line)
        return PassCost(line.fixed * slowness, line.per_token * slowness)

    def _slowness(self, context: int, line: PassCost) -> float:
        """Return the ratio of the range's last passes to the line."""
        context_range = _context_range(context)
        recent = [
            seconds / line.seconds(num)
            for num, seconds, after in self._recent
            if _context_range(after) == context_range
        ]
        return min(max(median_low(recent), 1 / _MAX_SLOWNESS), _MAX_SLOWNESS) if recent else 1.0

    def _line(self, context: int) -> PassCost | None:
        context_range, line, fixed = _context_range(context), None, None
        # The farthest range first: each one passes its fixed part to the next, which may have a single size.
        for other in sorted(self._quartiles, key=lambda other: abs(other - context_range), reverse=True):
            line = _fit([(num, rate * num) for rate, num in self._quartiles[other].values()], fixed)
            fixed = line.fixed
        return line


def _context_range(context: int) -> int:
    return (context // _CONTEXT_TOKENS).bit_length()


def _fit(points: Sequence[tuple[int, float]], prior_fixed: float | None) -> PassCost:
    """Return the least-squares line of relative errors.

    `points` are (tokens, seconds). Both parts are at least 0.
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
    # The fixed part is at most the shortest pass, however long others were delayed.
    fixed = min(max(fixed, 0.0), min(seconds for _, seconds in points))
    return PassCost(fixed, max(mean_seconds - fixed, 0.0) / mean_num)
