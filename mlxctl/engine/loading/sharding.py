"""Splits a model among ranks. MLX thread only."""

from typing import Any, Literal

import mlx.core as mx
from mlx.utils import tree_map


def keep_share(model: Any, ring: Any, split: Literal["tensor", "pipeline"]) -> None:
    """Keep this rank's share of a model that is not yet read.

    Nothing is read by this. With `tensor` each array is read whole when it is evaluated, and its share is
    kept. With `pipeline`, rank 0 has the last layers; arrays of others are never read.
    """
    if split == "pipeline":
        model.model.pipeline(ring)
        return
    model.shard(ring)
    # Some classes cut their heads out as views, which would keep the whole array in memory.
    model.update(tree_map(mx.contiguous, model.parameters()))
