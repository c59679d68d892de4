"""From pooled states to the vectors that are sent: dense layers, as many dimensions as asked for, one length.

MLX thread only.
"""

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
    """What a recipe does behind the pooling. `dense` are the layers of `recipe.dense`, with their weights."""

    def __init__(self, recipe: EmbeddingRecipe, dense: Sequence[Any]) -> None:
        self._is_normalized = recipe.is_normalized
        self._dense = [
            (layer, _ACTIVATIONS[told.activation]) for layer, told in zip(dense, recipe.dense, strict=True)
        ]

    def packed(self, pooled: Sequence[PooledText], *, dimensions: int | None) -> bytes:
        """Return the vectors of texts that are read to their end, one behind the other, as float32; None
        means all dimensions.
        """
        vectors = mx.stack([text.vector() for text in pooled])
        for layer, activation in self._dense:
            vectors = activation(layer(vectors))
        numbers: bytes = np.array(
            shortened(vectors, dimensions=dimensions, is_normalized=self._is_normalized)
        ).tobytes()
        return numbers
