"""Whether a model's recurrent layers leave padding out of their states.

MLX thread only. Some of mlx-lm's architectures ignore the lengths of rows in a batch: the state of a shorter
row then goes on over its padding.
"""

from collections.abc import Callable
from typing import Any

import mlx.core as mx
import numpy as np

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.host.failures import FOREIGN_ERRORS
from mlxctl.prefix_cache.records import leaves

# More than the width of any short convolution.
_NUM_PADDING = 8
# Rounding in 16 bits differs by less, a state over padding by more.
_MAX_DIFFERENCE = 0.05


def leaves_padding_out(model: Any, create_caches: Callable[[], kv.Caches]) -> bool:
    """Compare the state after a token with that beside a longer row.

    True for a model without recurrent layers. Only the first one is compared: the input of later ones depends
    on rounding.
    """
    if _recurrent_arrays(create_caches()) is None:
        return True
    # Padding has the id 0.
    tokens: kv.Tokens = np.ones(1 + _NUM_PADDING, dtype=np.uint32)
    alone = create_caches()
    model(mx.array(tokens[:1])[None], cache=alone)
    kv.evaluate(alone)
    try:
        beside = kv.join([create_caches(), create_caches()], [1, 1])
        kv.forward(model, beside, [tokens[:1], tokens])
    except FOREIGN_ERRORS:
        return False
    states = zip(_recurrent_arrays(alone) or (), _recurrent_arrays(beside) or (), strict=True)
    return all(_difference(one[0], other[0]) <= _MAX_DIFFERENCE for one, other in states)


def _recurrent_arrays(caches: kv.Caches) -> list[mx.array] | None:
    """Return the state of the first recurrent layer."""
    layer = next((layer for layer in leaves(caches) if type(layer).__name__ == "ArraysCache"), None)
    return None if layer is None else [array for array in layer.cache if array is not None]


def _difference(one: mx.array, other: mx.array) -> float:
    """Return the distance of two states, relative to the first one's size."""
    one, other = one.astype(mx.float32), other.astype(mx.float32)
    distance: Any = mx.sqrt(mx.square(one - other).sum() / mx.maximum(mx.square(one).sum(), 1e-18))
    return float(distance.item())
