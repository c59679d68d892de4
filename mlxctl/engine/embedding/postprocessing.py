"""Dense layers, dimensions and normalization after pooling. MLX thread only."""

from collections.abc import Callable, Mapping, Sequence
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
    """Applies a recipe after pooling; `dense` are its layers with their weights."""

    def __init__(self, recipe: EmbeddingRecipe, dense: Sequence[Any]) -> None:
        self._is_normalized = recipe.is_normalized
        self._dense = [
            (layer, _ACTIVATIONS[dense_recipe.activation])
            for layer, dense_recipe in zip(dense, recipe.dense, strict=True)
        ]

    def packed(self, pooled: Sequence[PooledText], *, dimensions: int | None) -> bytes:
        """Return the vectors of completed texts as packed float32.

        All dimensions if `dimensions` is None.
        """
        vectors = mx.stack([text.vector() for text in pooled])
        for layer, activation in self._dense:
            vectors = activation(layer(vectors))
        numbers: bytes = np.array(
            shortened(vectors, dimensions=dimensions, is_normalized=self._is_normalized)
        ).tobytes()
        return numbers
