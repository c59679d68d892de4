"""Splits the layers of a model among ranks. MLX thread only."""

from typing import Any

import mlx.core as mx
from mlx.utils import tree_map


def shard(model: Any, ring: Any) -> None:
    """Keep this rank's share of a model that is not yet read.

    Nothing is read by this: each array is read whole when it is evaluated, and its share is kept.
    """
    model.shard(ring)
    # Some classes cut their heads out as views, which would keep the whole array in memory.
    model.update(tree_map(mx.contiguous, model.parameters()))
