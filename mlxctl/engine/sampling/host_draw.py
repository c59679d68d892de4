"""Draws the next token of one row with NumPy.

Its result depends on the row's logits, parameters and position only. Filters take and return weights,
probabilities relative to that of the most likely token, 0 for removed tokens. The most likely token always
stays, except in xtc, which leaves another likely one.
"""

import threading
from functools import lru_cache
from typing import Any

import numpy as np

from mlxctl.engine.sampling.random_numbers import position_key, uniform_number
from mlxctl.ir import SamplingParams, ToneCurve

Row = np.ndarray[Any, np.dtype[np.float32]]
_BLOCK_TOKENS = 128
# Keeps a random number from being 0: a removed token would get 0 / 0.
_TINY = 1e-300


class _Scratch(threading.local):
    """Arrays of a vocabulary's size that every draw uses again.

    PERF: memory that was just allocated takes longer to write than a draw to compute.
    """

    def __init__(self) -> None:
        self._weights: Row = np.empty(0, dtype=np.float32)
        self._ordered: Row = self._weights
        self._mask: Any = np.empty(0, dtype=bool)

    def arrays(self, size: int) -> tuple[Row, Row, Any]:
        """Return two arrays for weights and one for a mask."""
        if self._weights.size < size:
            self._weights, self._ordered = (np.empty(size, dtype=np.float32) for _ in range(2))
            self._mask = np.empty(size, dtype=bool)
        return self._weights[:size], self._ordered[:size], self._mask[:size]


_scratch = _Scratch()


def draw_token(logits: Row, params: SamplingParams, position: int) -> int:
    """Return the token at `position`, from logits after penalties and masks."""
    if params.temperature <= 0 or not np.isfinite(logits.max()):
        return int(logits.argmax())
    return _race(token_weights(logits, params, position), params.seed, position)


def token_weights(logits: Row, params: SamplingParams, position: int) -> Row:
    """Return the weights of all tokens after temperature and filters.

    They are valid until the next call.
    """
    weights, _, mask = _scratch.arrays(logits.size)
    np.subtract(logits, logits.max(), out=weights)
    if params.tone_curve is not None:
        weights[:] = _curved(weights, params.tone_curve)
    if params.temperature != 1:
        np.divide(weights, np.float32(params.temperature), out=weights)
    np.exp(weights, out=weights)
    if floor := _floor(weights, params):
        np.multiply(weights, np.greater_equal(weights, floor, out=mask), out=weights)
    if params.typical_p < 1:
        weights = _typical(weights, params.typical_p)
    if params.xtc_probability > 0 and uniform_number(params.seed, position) < params.xtc_probability:
        weights = _without_top_choices(weights, params.xtc_threshold)
    return weights


def _race(weights: Row, seed: int, position: int) -> int:
    """Draw a token by its weight.

    A weight divided by an exponential random number is the largest of all with the token's probability. So
    first a block of tokens is drawn, then a token of it. The numbers depend on seed and position alone, so a
    draft model with similar probabilities most likely draws the same token.
    """
    high, low = position_key(seed, position)
    generator = np.random.Generator(np.random.Philox(key=high << 32 | low))
    sums = np.add.reduceat(weights, _block_starts(weights.size))
    start = int((sums / (generator.standard_exponential(sums.size) + _TINY)).argmax()) * _BLOCK_TOKENS
    block = weights[start : start + _BLOCK_TOKENS]
    return start + int((block / (generator.standard_exponential(block.size) + _TINY)).argmax())


def _floor(weights: Row, params: SamplingParams) -> float:
    """Return the least weight that top_k, top_p and min_p keep.

    top_p applies to what top_k leaves.
    """
    floor = 0.0
    _, ordered, mask = _scratch.arrays(weights.size)
    if 0 < params.top_k < weights.size:
        place = weights.size - params.top_k
        ordered[:] = weights
        ordered.partition(place)
        floor = float(ordered[place])
        if params.top_p < 1:
            weights = weights[np.greater_equal(weights, floor, out=mask)]
    if params.top_p < 1:
        floor = max(floor, _nucleus_floor(weights, params.top_p))
    return max(floor, params.min_p)


def _nucleus_floor(weights: Row, top_p: float) -> float:
    """Return the least weight of the tokens that top_p keeps.

    PERF: less likely tokens than these, together below 1 - top_p, need not be sorted.
    """
    _, ordered, mask = _scratch.arrays(weights.size)
    total = float(weights.sum())
    np.greater_equal(weights, (1 - top_p) * total / weights.size, out=mask)
    likely = ordered[: np.count_nonzero(mask)]
    np.compress(mask, weights, out=likely)
    likely_sum = float(likely.sum())
    likely.sort()
    num_removed = _num_within(likely, likely_sum - top_p * total)
    return float(likely[min(num_removed, likely.size - 1)])


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


def _typical(weights: Row, typical_p: float) -> Row:
    """Keep the tokens whose information is closest to the entropy.

    Meister et al. 2023.
    """
    ids = np.flatnonzero(weights)
    probabilities = weights[ids] / weights.sum()
    surprise = -np.log(probabilities)
    distance = np.abs(surprise - (probabilities * surprise).sum())
    order = np.argsort(distance)
    num_before = _num_within(probabilities[order], typical_p)
    limit = distance[order[min(num_before, ids.size - 1)]]
    kept: Row = np.zeros_like(weights)
    stays = ids[distance <= limit]
    kept[stays] = weights[stays]
    return kept


def _without_top_choices(weights: Row, threshold: float) -> Row:
    """Remove all tokens above the threshold but the least likely."""
    is_above = weights >= threshold * weights.sum()
    if not is_above.any():
        return weights
    kept: Row = weights * ~(is_above & (weights > weights[is_above].min()))
    return kept


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
