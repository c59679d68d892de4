"""Pooling of a text's hidden states to one vector. MLX thread only.

The modes are those of sentence-transformers' Pooling module, over every token of the text.
"""

import math
from collections.abc import Sequence
from typing import assert_never

import mlx.core as mx

from mlxctl.ir import Pooling

_SMALLEST_NORM = 1e-12


class PooledText:
    """The pooled state of one text.

    Hidden states are added in order, in float32.
    """

    def __init__(self, pooling: Sequence[Pooling]) -> None:
        self._pooling = pooling
        self._parts: dict[Pooling, mx.array] = {}
        self._num_tokens = 0

    def add(self, states: mx.array) -> None:
        """Add the states of the next tokens (tokens, width), at least one."""
        states = states.astype(mx.float32)
        start, self._num_tokens = self._num_tokens, self._num_tokens + states.shape[0]
        for pooling in self._pooling:
            before = self._parts.get(pooling)
            self._parts[pooling] = _folded(pooling, before, states, start)

    def vector(self) -> mx.array:
        """Return the pooled vector (width x number of modes)."""
        return mx.concatenate(
            [part / _divisor(pooling, self._num_tokens) for pooling, part in self._parts.items()]
        )

    def arrays(self) -> list[mx.array]:
        """Return the arrays to evaluate before the next part."""
        return list(self._parts.values())


def shortened(vectors: mx.array, *, dimensions: int | None, is_normalized: bool) -> mx.array:
    """Cut vectors (texts, width) to `dimensions`.

    They are normalized again if the model normalizes.
    """
    vectors = vectors[:, :dimensions].astype(mx.float32)
    lengths = mx.linalg.norm(vectors, axis=-1, keepdims=True)
    return vectors / mx.maximum(lengths, _SMALLEST_NORM) if is_normalized else vectors


def _folded(pooling: Pooling, before: mx.array | None, states: mx.array, start: int) -> mx.array:
    match pooling:
        case "cls":
            return states[0] if before is None else before
        case "last_token":
            return states[-1]
        case "max":
            now = states.max(axis=0)
            return now if before is None else mx.maximum(before, now)
        case "mean" | "mean_sqrt_len":
            now = states.sum(axis=0)
        case "weighted_mean":
            positions = mx.arange(start + 1, start + 1 + states.shape[0], dtype=mx.float32)
            now = positions @ states
        case _:
            assert_never(pooling)
    return now if before is None else before + now


def _divisor(pooling: Pooling, num_tokens: int) -> float:
    match pooling:
        case "mean":
            return float(num_tokens)
        case "mean_sqrt_len":
            return math.sqrt(num_tokens)
        case "weighted_mean":
            return num_tokens * (num_tokens + 1) / 2
        case _:
            return 1.0
