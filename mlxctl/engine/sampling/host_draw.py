"""Draws the next token of one row with NumPy.

Its result depends on the row's logits, parameters and position only. A weight is a probability relative to
that of the most likely token. The most likely token always stays, except in xtc, which leaves another likely
one.
"""

import math
import threading
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from mlxctl.engine.sampling.random_numbers import position_key, uniform_number
from mlxctl.ir import SamplingParams, ToneCurve

Row = np.ndarray[Any, np.dtype[np.float32]]
Ids = np.ndarray[Any, np.dtype[np.intp]]
Mask = np.ndarray[Any, np.dtype[np.bool_]]
_BLOCK_TOKENS = 128
# Tokens that stay are copied out where they are at most this share; otherwise the others get the weight 0.
_COPIED_SHARE = 1 / 8
# Keeps a random number from being 0: a removed token would get 0 / 0.
_TINY = 1e-300
# The least normal number: a removed token has the weight 0, but its logarithm must be finite.
_TINIEST = np.finfo(np.float32).tiny


class _Scratch(threading.local):
    """Arrays of a vocabulary's size that every draw uses again.

    PERF: memory that was just allocated takes longer to write than a draw to compute.
    """

    def __init__(self) -> None:
        self._weights: Row = np.empty(0, dtype=np.float32)
        self._ordered: Row = self._weights
        self._mask: Mask = np.empty(0, dtype=bool)

    def arrays(self, size: int) -> tuple[Row, Row, Mask]:
        """Return two arrays for weights and one for a mask."""
        if self._weights.size < size:
            self._weights, self._ordered = (np.empty(size, dtype=np.float32) for _ in range(2))
            self._mask = np.empty(size, dtype=bool)
        return self._weights[:size], self._ordered[:size], self._mask[:size]


_scratch = _Scratch()


class Candidates(NamedTuple):
    """Tokens that may be drawn, with weights or their logarithms.

    `ids` are ascending; None for the whole vocabulary, where removed tokens have the weight 0.
    """

    ids: Ids | None
    values: Row

    def keep(self, mask: Mask, remove: np.ufunc) -> "Candidates":
        """Return the tokens of the mask; `remove` changes the values of others.

        PERF: a product with the mask, or for logarithms a quotient, takes a tenth of the time of a selection.
        """
        if np.count_nonzero(mask) > _COPIED_SHARE * mask.size:
            with np.errstate(divide="ignore"):
                remove(self.values, mask, out=self.values)
            return self
        places = np.flatnonzero(mask)
        return Candidates(places if self.ids is None else self.ids[places], self.values[places])


def draw_token(logits: Row, params: SamplingParams, position: int) -> int:
    """Return the token at `position`, from logits after penalties and masks."""
    if params.temperature <= 0 or not np.isfinite(logits.max()):
        return int(logits.argmax())
    return _race(candidates(logits, params, position), logits.size, params.seed, position)


def candidates(logits: Row, params: SamplingParams, position: int) -> Candidates:
    """Return the tokens that stay after temperature and filters, with weights.

    They are valid until the next call.
    """
    relative, _, mask = _scratch.arrays(logits.size)
    np.subtract(logits, logits.max(), out=relative)
    found = Candidates(None, relative)
    # PERF: what top_k and min_p remove needs no exponential. Logarithms that they remove are below 0, so that
    # their quotient by False is -inf.
    if 0 < params.top_k < logits.size:
        floor = _kth_largest(relative, params.top_k)
        found = found.keep(np.greater_equal(relative, floor, out=mask), np.divide)
    if params.tone_curve is not None:
        found = found._replace(values=_curved(found.values, params.tone_curve))
    if params.min_p > 0:
        floor = params.temperature * math.log(params.min_p)
        found = found.keep(found.values >= floor, np.divide)
    weights = found.values
    if params.temperature != 1:
        np.divide(weights, np.float32(params.temperature), out=weights)
    np.exp(weights, out=weights)
    if params.top_p < 1:
        found = found.keep(found.values >= _nucleus_floor(found.values, params.top_p), np.multiply)
    if params.typical_p < 1:
        found = found.keep(_is_typical(found.values, params.typical_p), np.multiply)
    if params.xtc_probability > 0 and uniform_number(params.seed, position) < params.xtc_probability:
        found = found.keep(~_is_top_choice(found.values, params.xtc_threshold), np.multiply)
    return found


def _race(found: Candidates, size: int, seed: int, position: int) -> int:
    """Draw a token of a vocabulary of `size` by its weight.

    A weight divided by an exponential random number is the largest of all with the token's probability. So
    first a block of tokens is drawn, then a token of it. The numbers depend on seed and position alone, so a
    draft model with similar probabilities most likely draws the same token.
    """
    high, low = position_key(seed, position)
    generator = np.random.Generator(np.random.Philox(key=high << 32 | low))
    starts = _block_starts(size)
    ids, weights = found
    if ids is None:
        sums = np.add.reduceat(weights, starts)
    else:
        sums = np.bincount(ids // _BLOCK_TOKENS, weights=weights, minlength=starts.size)
    start = int((sums / (generator.standard_exponential(sums.size) + _TINY)).argmax()) * _BLOCK_TOKENS
    numbers = generator.standard_exponential(min(_BLOCK_TOKENS, size - start)) + _TINY
    if ids is None:
        return start + int((weights[start : start + _BLOCK_TOKENS] / numbers).argmax())
    first, end = (int(np.searchsorted(ids, each)) for each in (start, start + _BLOCK_TOKENS))
    inside = ids[first:end]
    return int(inside[(weights[first:end] / numbers[inside - start]).argmax()])


def _kth_largest(values: Row, k: int) -> float:
    """Return the k-th largest value.

    PERF: it is at least the k-th largest maximum of a block, so that few values need an order.
    """
    maxima = np.maximum.reduceat(values, _block_starts(values.size))
    if k < maxima.size:
        least = np.partition(maxima, maxima.size - k)[maxima.size - k]
        values = values[np.greater_equal(values, least, out=_scratch.arrays(values.size)[2])]
    return float(np.partition(values, values.size - k)[values.size - k])


def _nucleus_floor(weights: Row, top_p: float) -> float:
    """Return the least weight of the tokens that top_p keeps.

    PERF: less likely tokens than these, together below 1 - top_p, need not be sorted if they are most.
    """
    _, ordered, mask = _scratch.arrays(weights.size)
    total = float(weights.sum())
    np.greater_equal(weights, (1 - top_p) * total / weights.size, out=mask)
    if np.count_nonzero(mask) > _COPIED_SHARE * mask.size:
        ordered[:] = weights
    else:
        ordered = weights[np.flatnonzero(mask)]
    likely_sum = float(ordered.sum())
    ordered.sort()
    num_removed = _num_within(ordered, likely_sum - top_p * total)
    return float(ordered[min(num_removed, ordered.size - 1)])


def _num_within(values: Row, limit: float) -> int:
    """Return how many first values have a sum within `limit`.

    PERF: sums of blocks first, since a cumulative sum takes longer than the sort.
    """
    starts = _block_starts(values.size)
    sums = np.add.reduceat(values, starts)
    cumulative = np.cumsum(sums, dtype=np.float64)
    block = int(np.searchsorted(cumulative, limit, side="right"))
    if block == sums.size:
        return values.size
    start = int(starts[block])
    within = np.cumsum(values[start : start + _BLOCK_TOKENS], dtype=np.float64)
    return start + int(np.searchsorted(within, limit - (cumulative[block] - sums[block]), side="right"))


def _is_typical(weights: Row, typical_p: float) -> Mask:
    """Return the tokens whose information is closest to the entropy.

    Meister et al. 2023. They are those with a weight in a certain range.

    PERF: tokens below `floor` need no order. Together they have less than 1 - typical_p, and each is farther
    from the entropy than all others: these differ from it by the entropy itself or less, or are more likely.
    """
    _, logs, mask = _scratch.arrays(weights.size)
    np.log(np.maximum(weights, _TINIEST, out=logs), out=logs)
    total = float(weights.sum())
    mean_log = float(np.dot(weights, logs)) / total
    entropy = math.log(total) - mean_log
    floor = total * min((1 - typical_p) / weights.size, math.exp(-2 * entropy))
    likely = weights[np.flatnonzero(np.greater_equal(weights, floor, out=mask))]
    likely.sort()
    distance = np.abs(np.log(likely) - np.float32(mean_log))
    # Down to the nearest token and up again: a stable sort merges two runs.
    order = np.argsort(distance, kind="stable")
    num_before = _num_within(likely[order], typical_p * total)
    inside = likely[distance <= distance[order[min(num_before, order.size - 1)]]]
    kept: Mask = np.greater_equal(weights, inside[0], out=mask) & (weights <= inside[-1])
    return kept


def _is_top_choice(weights: Row, threshold: float) -> Mask:
    """Return the tokens above the threshold but the least likely."""
    is_above: Mask = weights >= threshold * weights.sum()
    return is_above & (weights > weights[is_above].min()) if is_above.any() else is_above


def _curved(relative: Row, curve: ToneCurve) -> Row:
    """Apply the curve of `ToneCurves`.

    Takes and returns log-probabilities relative to the largest.
    """
    z = relative + np.float32(curve.pivot_offset)
    shoulder = curve.width + curve.shoulder * np.log1p(np.maximum(z - curve.width, 0) / curve.shoulder)
    toe = -curve.width - curve.toe * np.log1p(np.maximum(-z - curve.width, 0) / curve.toe)
    curved = np.where(z > curve.width, shoulder, np.where(z < -curve.width, toe, z))
    result: Row = np.where(relative == -np.inf, relative, curved - curved.max()).astype(np.float32)
    return result


@lru_cache(maxsize=16)
def _block_starts(size: int) -> "np.ndarray[Any, np.dtype[np.intp]]":
    return np.arange(0, size, _BLOCK_TOKENS)
