"""Caches of one sequence and of a batch, layer by layer: joining, leaving, keeping. MLX thread only.

Uses mlx-lm's cache classes (`merge`, `extend`, `filter`, `extract`); what is added here is when their arrays are evaluated, because
a lazy slice pins the buffer that it was cut from. Formats: a list with one cache object per layer, as `make_prompt_cache` gives it.
"""

from collections.abc import Sequence as Many
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten

Caches = list[Any]


def new_caches(model: Any) -> Caches:
    """Return empty caches for one sequence."""
    from mlx_lm.models.cache import make_prompt_cache

    return list(make_prompt_cache(model))


def arrays(caches: Caches) -> list[mx.array]:
    """Return everything the caches hold."""
    return [leaf for _, leaf in tree_flatten([layer.state for layer in caches]) if isinstance(leaf, mx.array)]


def reserve(caches: Caches, num_tokens: int) -> None:
    """Give growing layers of one sequence room for `num_tokens` in all, once they hold something.

    Left alone they grow by 256 tokens and copy everything each time: in the middle of a long prompt that is a pause for everybody.
    """
    for layer in caches:
        room = 0 if type(layer).__name__ != "KVCache" or layer.empty() else num_tokens - layer.keys.shape[2]
        if room > 0:
            layer.keys = _extended(layer.keys, room)
            layer.values = _extended(layer.values, room)
    evaluate(caches)


def _extended(array: mx.array, room: int) -> mx.array:
    batch, heads, _, dim = array.shape
    return mx.concatenate([array, mx.zeros((batch, heads, room, dim), dtype=array.dtype)], axis=2)


def evaluate(caches: Caches) -> None:
    """Compute everything the caches hold, so that they keep no graph and no parent buffer alive."""
    mx.eval(arrays(caches))


def as_batch(caches: Caches) -> Caches:
    """Return a batch of the one sequence that `caches` belongs to. Copies it once."""
    return [layer.merge([layer]) for layer in caches]


def join(batches: Many[Caches]) -> Caches:
    """Return one batch of all rows, in order. Takes the given batches over: they must not be used again."""
    joined, *others = batches
    for other in others:
        for layer, layer_of_other in zip(joined, other, strict=True):
            layer.extend(layer_of_other)
    evaluate(joined)
    return joined


def keep_rows(caches: Caches, indices: list[int]) -> None:
    """Drop all rows but `indices` from the batch, in place."""
    for layer in caches:
        layer.filter(indices)
    evaluate(caches)


def extract_row(caches: Caches, index: int) -> Caches:
    """Return a copy of one row as the caches of a single sequence, independent of the batch."""
    row = [layer.extract(index) for layer in caches]
    for layer in row:
        _detach(layer)
    evaluate(row)
    return row


def _detach(layer: Any) -> None:
    # Recurrent layers extract a bare slice, which keeps the whole batch alive even after it was evaluated.
    for child in getattr(layer, "caches", ()):
        _detach(child)
    states = getattr(layer, "cache", None)
    if isinstance(states, list):
        layer.cache = [None if state is None else mx.contiguous(state) for state in states]
