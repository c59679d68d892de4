"""Filters that remove tokens before the draw. MLX thread only.

All take logits (B, V) in float32 after the temperature, and return them with -inf for removed tokens; the
logits of a row that does not use a filter stay bit for bit the same. The most likely token always stays,
except in xtc, which leaves another likely one.
"""

from collections import abc
from collections.abc import Callable
from typing import Protocol

import mlx.core as mx
import numpy as np

from mlxctl.engine.sampling.logprobs import log_softmax
from mlxctl.engine.sampling.penalties import column
from mlxctl.ir import SamplingParams

# Common defaults of models are 20, 40 and 64.
_SMALL_TOP_K = 64
_BLOCK_TOKENS = 128


class TokenFilter(Protocol):
    """Removes tokens from the logits of a batch."""

    def apply(self, logits: mx.array) -> mx.array:
        """Return the logits with -inf for removed tokens."""
        ...


def token_filters(params: abc.Sequence[SamplingParams], vocabulary_size: int) -> list[TokenFilter]:
    """Return the filters that the rows use, in their order.

    All but xtc, which needs the position of each row.
    """
    filters = (
        TopKTopPFilter.of(params, vocabulary_size, has_small_top_k=True),
        TopKTopPFilter.of(params, vocabulary_size, has_small_top_k=False),
        MinPFilter.of(params),
        TypicalFilter.of(params),
    )
    return [each for each in filters if each is not None]


class TopKTopPFilter:
    """top_k, then top_p over the remaining tokens.

    PERF: it sorts all tokens, or for rows with a small top_k only blocks that hold the most likely ones: for
    150,000 tokens 1 ms a row and step in place of 13 (CPU). A row is in the same filter in every batch, so
    that its rounding is the same.
    """

    def __init__(self, top_k: mx.array, top_p: mx.array, is_used: mx.array, *, num_sorted: int) -> None:
        """`num_sorted` most likely tokens of a row are sorted.

        The arrays are (B, 1).
        """
        self._top_k = top_k
        self._top_p = top_p
        self._is_used = is_used
        self._num_sorted = num_sorted

    @classmethod
    def of(
        cls, params: abc.Sequence[SamplingParams], vocabulary_size: int, *, has_small_top_k: bool
    ) -> "TopKTopPFilter | None":
        """Return the filter of rows with small top_k, or of others.

        None if no row uses it.
        """
        is_used = [
            row.temperature > 0
            and bool(row.top_k or row.top_p < 1)
            and (0 < row.top_k <= _SMALL_TOP_K) == has_small_top_k
            for row in params
        ]
        if not any(is_used):
            return None
        num_sorted = min(_SMALL_TOP_K if has_small_top_k else vocabulary_size, vocabulary_size)
        top_k = [min(row.top_k, num_sorted) or num_sorted for row in params]
        # top_p 1 keeps all tokens, even if the cumulative probability rounds above 1.
        top_p = [row.top_p if row.top_p < 1 else 2.0 for row in params]
        return cls(
            mx.array(top_k, dtype=mx.int32)[:, None],
            column(top_p),
            mx.array(is_used)[:, None],
            num_sorted=num_sorted,
        )

    def apply(self, logits: mx.array) -> mx.array:
        """Remove tokens outside top_k or top_p."""
        ordered = -mx.sort(-_most_likely(logits, self._num_sorted), axis=-1)[:, : self._num_sorted]
        in_top_k = mx.arange(self._num_sorted)[None, :] < self._top_k
        probabilities = mx.softmax(mx.where(in_top_k, ordered, -mx.inf), axis=-1)
        before = mx.cumsum(probabilities, axis=-1) - probabilities
        # The most likely token always stays: the probability before it is 0.
        stays = in_top_k & (before < self._top_p)
        floor = mx.min(mx.where(stays, ordered, mx.inf), axis=-1, keepdims=True)
        return mx.where((logits >= floor) | ~self._is_used, logits, -mx.inf)


def _most_likely(logits: mx.array, num_tokens: int) -> mx.array:
    """Return logits among which are the `num_tokens` largest of each row.

    These are in the `num_tokens` blocks with the largest maxima.
    """
    num_rows, width = logits.shape
    num_blocks = -(-width // _BLOCK_TOKENS)
    if num_tokens >= num_blocks:
        return logits
    if missing := num_blocks * _BLOCK_TOKENS - width:
        logits = mx.pad(logits, [(0, 0), (0, missing)], constant_values=-mx.inf)
    blocks = logits.reshape(num_rows, num_blocks, _BLOCK_TOKENS)
    chosen = mx.argpartition(-mx.max(blocks, axis=-1), num_tokens - 1, axis=-1)[:, :num_tokens]
    return mx.take_along_axis(blocks, chosen[:, :, None], axis=1).reshape(num_rows, -1)


class MinPFilter:
    """min_p: removes tokens below a share of the most likely token's probability.

    p_i >= min_p * p_max is x_i >= x_max + ln(min_p), so no softmax is needed.
    """

    def __init__(self, offset: mx.array) -> None:
        self._offset = offset

    @classmethod
    def of(cls, params: abc.Sequence[SamplingParams]) -> "MinPFilter | None":
        """Return the filter of the rows, None if no row uses it."""
        if not any(row.min_p for row in params):
            return None
        return cls(column([float(np.log(row.min_p)) if row.min_p > 0 else -np.inf for row in params]))

    def apply(self, logits: mx.array) -> mx.array:
        """Remove tokens below min_p."""
        return mx.where(logits >= mx.max(logits, axis=-1, keepdims=True) + self._offset, logits, -mx.inf)


class TypicalFilter:
    """typical_p (Meister et al. 2023).

    Keeps the tokens whose information is closest to the entropy, up to a total probability.
    """

    def __init__(self, typical_p: mx.array) -> None:
        self._typical_p = typical_p

    @classmethod
    def of(cls, params: abc.Sequence[SamplingParams]) -> "TypicalFilter | None":
        """Return the filter of the rows, None if no row uses it."""
        if not any(row.typical_p < 1 for row in params):
            return None
        return cls(column([row.typical_p for row in params]))

    def apply(self, logits: mx.array) -> mx.array:
        """Remove tokens that are not typical."""
        logprobs = log_softmax(logits)
        probabilities = mx.exp(logprobs)
        entropy = -mx.sum(mx.where(probabilities > 0, probabilities * logprobs, 0.0), axis=-1, keepdims=True)
        distance = mx.where(probabilities > 0, mx.abs(-logprobs - entropy), mx.inf)
        order = mx.argsort(distance, axis=-1)
        cumulative = mx.cumsum(mx.take_along_axis(probabilities, order, axis=-1), axis=-1)
        before = cumulative - mx.take_along_axis(probabilities, order, axis=-1)
        nearest = mx.take_along_axis(distance, order, axis=-1)
        stays = (before < self._typical_p) | (mx.arange(nearest.shape[-1])[None, :] == 0)
        limit = mx.max(mx.where(stays & (nearest < mx.inf), nearest, -mx.inf), axis=-1, keepdims=True)
        return mx.where((distance <= limit) | (self._typical_p >= 1), logits, -mx.inf)


class XtcFilter:
    """xtc (p-e-w 2024): at random positions, removes the most likely tokens.

    Of the tokens above a threshold only the least likely one stays.
    """

    def __init__(self, params: abc.Sequence[SamplingParams]) -> None:
        self._params = params
        self._threshold = column([row.xtc_threshold for row in params])

    @classmethod
    def of(cls, params: abc.Sequence[SamplingParams]) -> "XtcFilter | None":
        """Return the filter of the rows, None if no row uses it."""
        return cls(params) if any(row.xtc_probability > 0 for row in params) else None

    def apply(self, logits: mx.array, uniform_number: Callable[[int], float]) -> mx.array:
        """Filter the rows whose random number is below their xtc_probability.

        `uniform_number` returns one from 0 to 1 for a row index.
        """
        chosen = [
            row.xtc_probability > 0 and uniform_number(index) < row.xtc_probability
            for index, row in enumerate(self._params)
        ]
        if not any(chosen):
            return logits
        probabilities = mx.softmax(logits, axis=-1)
        above = probabilities >= self._threshold
        least = mx.min(mx.where(above, probabilities, mx.inf), axis=-1, keepdims=True)
        return mx.where(above & (probabilities > least) & mx.array(chosen)[:, None], -mx.inf, logits)
