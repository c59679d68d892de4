"""Streaming modules of mlx-audio, with their own state.

MLX thread only.
"""

import copy
from typing import Any

import mlx.nn as nn


def with_own_state(module: Any) -> Any:
    """Return a copy of a streaming module that shares the weights.

    Such modules keep their state, arrays and caches of keys and values, in attributes.
    """
    from mlx_audio.lm.models.cache import KVCache

    if isinstance(module, nn.Module):
        own = copy.copy(module)
        dict.update(own, {name: with_own_state(value) for name, value in module.items()})
        return own
    if isinstance(module, list):
        return [with_own_state(value) for value in module]
    return copy.copy(module) if isinstance(module, KVCache) else module
