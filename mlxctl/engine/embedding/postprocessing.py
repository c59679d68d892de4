"""Dense layers, dimensions and normalization after pooling. MLX thread only."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import mlx.core as mx
import mlx.nn as nn
import numpy as np

from mlxctl.engine.embedding.pooling import PooledText, shortened
from mlxctl.ir import Activation, EmbeddingRecipe

_ACTIVATIONS: Mapping[Activation, Callable[[mx.array], mx.array]] = {
    "identity": lambda vectors: vectors,
    "tanh": mx.tanh,
    "relu": nn.relu,
    "gelu": nn.gelu,
    "sigmoid": mx.sigmoid,
    "silu": nn.silu,
}


class EmbeddingPostprocessor:
    """Applies a recipe after pooling.

    `dense` are its layers with their weights, `norms` those of the layers that have one.
    """

    def __init__(self, recipe: EmbeddingRecipe, dense: Sequence[Any], norms: Iterable[Any]) -> None:
        self._is_normalized = recipe.is_normalized
        rest = iter(norms)
        self._dense = [
            (
                layer,
                _ACTIVATIONS[described.activation],
                None if described.norm_epsilon is None else next(rest),
            )
            for layer, described in zip(dense, recipe.dense, strict=True)
        ]

    def packed(self, pooled: Sequence[PooledText], *, dimensions: int | None) -> bytes:
        """Return the vectors of completed texts as packed float32.

        All dimensions if `dimensions` is None.
        """
        vectors = mx.stack([text.vector() for text in pooled])
        for layer, activation, norm in self._dense:
            vectors = activation(layer(vectors))
            vectors = vectors if norm is None else norm(vectors)
        numbers: bytes = np.array(
            shortened(vectors, dimensions=dimensions, is_normalized=self._is_normalized)
        ).tobytes()
        return numbers
