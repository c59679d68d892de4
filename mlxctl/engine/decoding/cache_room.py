"""Room of caches for more tokens and rows: its size and growth.

MLX thread only. Left alone, mlx-lm's caches grow in the middle of a pass, all layers at once. Here one array
grows after the other, before the pass, so that what a step allocates is known before it begins.
"""

from collections import abc
from collections.abc import Iterator
from typing import Any

import mlx.core as mx

from mlxctl.engine.decoding import caches as kv
from mlxctl.engine.decoding.quantized_cache import grown
from mlxctl.ir.conversation_size import OUTPUT_RESERVE_TOKENS
from mlxctl.prefix_cache.records import growing_arrays, grows, leaves, set_arrays

STEP_TOKENS = 256
"""Tokens by which caches grow, as mlx-lm's own do."""

LEAST_STEP_TOKENS = 32
"""Tokens by which they grow where memory is short."""


def lacks_room(caches: kv.Caches, num_tokens: int) -> bool:
    """Whether some layer must grow for the next tokens of every row."""
    return any(_missing(layer, num_tokens) > 0 for layer in leaves(caches))


def growth_bytes(caches: kv.Caches, num_tokens: int, *, step: int) -> int:
    """Return what `grow` adds, beside the copy of an array."""
    added = 0
    for layer, more in _growing(caches, num_tokens, step):
        for array in growing_arrays(layer):
            per_token = array.nbytes // array.shape[2]
            added += per_token * (layer.size() + more) - array.nbytes
    return max(0, added)


def grow(caches: kv.Caches, num_tokens: int, *, step: int) -> None:
    """Give every layer room for the next tokens of every row."""
    for layer, more in list(_growing(caches, num_tokens, step)):
        for place, array in enumerate(growing_arrays(layer)):
            larger = grown(array, array, layer.size(), more)
            mx.eval(larger)
            held = growing_arrays(layer)
            held[place] = larger
            set_arrays(layer, held)


def join_bytes(parts: abc.Sequence[kv.Caches], num_rows: abc.Sequence[int]) -> int:
    """Return what joining them without spare rows allocates at a time.

    The layers of the parts are freed one after the other.
    """
    layers = [layers for layers in zip(*(leaves(part) for part in parts), strict=True) if grows(layers[0])]
    if kv.has_rows_for(parts, num_rows):
        return 0
    longest = max((layer.size() for part in parts for layer in leaves(part) if grows(layer)), default=0)
    sizes = [
        sum(num_rows) * (longest + OUTPUT_RESERVE_TOKENS) * max(map(kv.position_bytes, together))
        for together in layers
    ]
    held = sum(array.nbytes for together in layers for layer in together for array in growing_arrays(layer))
    return max(0, sum(sizes) - held) + max(sizes, default=0)


def largest_layer_bytes(caches: kv.Caches) -> int:
    """Return the size of the largest layer, twice for a quantized one.

    Attention, growing and dropping rows copy up to one layer at a time; attention over quantized keys was
    measured to copy two on CPUs.
    """
    sizes = (
        sum(array.nbytes for array in growing_arrays(layer)) * (2 if hasattr(layer, "kv_format") else 1)
        for layer in leaves(caches)
        if grows(layer)
    )
    return max(sizes, default=0)


def _missing(layer: Any, num_tokens: int) -> int:
    held = growing_arrays(layer) if grows(layer) else []
    return layer.size() + num_tokens - held[0].shape[2] if held else 0


def _growing(caches: kv.Caches, num_tokens: int, step: int) -> Iterator[tuple[Any, int]]:
    """Yield the layers that lack room, with the tokens to add."""
    for layer in leaves(caches):
        if _missing(layer, num_tokens) > 0:
            yield layer, -(-num_tokens // step) * step
