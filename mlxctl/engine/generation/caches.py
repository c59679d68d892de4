"""Caches of one sequence and of a batch, layer by layer: joining, leaving, keeping. MLX thread only.

Uses mlx-lm's cache classes (`merge`, `extend`, `filter`, `extract`), and quantized ones of our own; what is
added here is when their arrays are evaluated, because a lazy slice pins the buffer that it was cut from.
Formats: a list with one cache object per layer, as `make_prompt_cache` gives it.
"""

from collections.abc import Sequence as Many
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlxctl.engine.generation.quantized_cache import BatchQuantizedKVCache, quantized
from mlxctl.engine.scheduling.sequence import OUTPUT_RESERVE_TOKENS
from mlxctl.ir import KVFormat
from mlxctl.prefix_cache.records import growing_arrays, grows, hold, leaves

Caches = list[Any]
Tokens = np.ndarray[Any, np.dtype[np.uint32]]

# Joined layers are computed whenever they take so much: each time costs a wait for the device.
_JOIN_BYTES = 256 * 1024 * 1024


def new_caches(model: Any, form: KVFormat | None = None) -> Caches:
    """Return empty caches for one sequence, whose layers that keep every token do so quantized if there is a
    `form` for it.
    """
    from mlx_lm.models.cache import make_prompt_cache

    caches = make_prompt_cache(model)
    return list(caches if form is None else quantized(caches, form))


def arrays(caches: Caches) -> list[mx.array]:
    """Return everything the caches hold."""
    return [leaf for _, leaf in tree_flatten([layer.state for layer in caches]) if isinstance(leaf, mx.array)]


def evaluate(caches: Caches) -> None:
    """Compute everything the caches hold, so that they keep no graph and no parent buffer alive."""
    mx.eval(arrays(caches))


def join(parts: Many[Caches], num_rows: Many[int]) -> Caches:
    """Return one batch of all rows, in order; each part has so many, and one with a single row is no batch
    yet.

    Takes the parts over: they must not be used again. What is joined is not there twice as a whole, but for
    some layers at a time.
    """
    joined: Caches = []
    num_bytes = 0
    for layers in zip(*parts, strict=True):
        joined.append(_joined(layers, num_rows))
        for layer in layers:
            if layer is not joined[-1] and hasattr(layer, "keys"):
                layer.keys = layer.values = None
        num_bytes += sum(array.nbytes for array in arrays(joined[-1:]))
        if num_bytes > _JOIN_BYTES:
            evaluate(joined)
            num_bytes = 0
    evaluate(joined)
    return joined


def _joined(layers: Many[Any], num_rows: Many[int]) -> Any:
    if hasattr(layers[0], "caches"):
        return type(layers[0])(
            *(_joined(parts, num_rows) for parts in zip(*(layer.caches for layer in layers), strict=True))
        )
    if grows(layers[0]):
        return _joined_growing(layers, num_rows)
    first, *others = [
        layer if num > 1 else layer.merge([layer]) for layer, num in zip(layers, num_rows, strict=True)
    ]
    for other in others:
        first.extend(other)
    return first


def _joined_growing(layers: Many[Any], num_rows: Many[int]) -> Any:
    """Join layers that grow with the sequence, in one copy, with room for the answer; `merge` and `extend`
    copy more.
    """
    lengths = [layer.size() for layer in layers]
    paddings = [layer.left_padding.tolist() if hasattr(layer, "left_padding") else [0] for layer in layers]
    longest = max(lengths)
    joined = _empty_batch(
        layers[0],
        [
            padding + longest - length
            for rows, length in zip(paddings, lengths, strict=True)
            for padding in rows
        ],
    )
    held = [growing_arrays(layer) for layer in layers]
    if num_arrays := max(map(len, held)):
        columns = ([arrays[place] if arrays else None for arrays in held] for place in range(num_arrays))
        hold(joined, [_stacked(column, num_rows, lengths) for column in columns])
        joined.state = joined.keys, joined.values, joined.offset + longest, joined.left_padding, longest
    return joined


def _empty_batch(layer: Any, left_padding: list[int]) -> Any:
    """A batch of rows of the layer's kind."""
    from mlx_lm.models.cache import BatchKVCache

    return (
        BatchQuantizedKVCache(layer.form, left_padding)
        if hasattr(layer, "form")
        else BatchKVCache(left_padding)
    )


def _stacked(arrays: Many[mx.array | None], num_rows: Many[int], lengths: Many[int]) -> mx.array:
    """One array of all rows, aligned at their ends; there is none of those of which nothing is held."""
    first = next(array for array in arrays if array is not None)
    (_, heads, _, dim), dtype, longest = first.shape, first.dtype, max(lengths)
    stacked = mx.zeros((sum(num_rows), heads, longest + OUTPUT_RESERVE_TOKENS, dim), dtype=dtype)
    place = 0
    for array, num, length in zip(arrays, num_rows, lengths, strict=True):
        if array is not None and length:
            stacked[place : place + num, :, longest - length : longest] = array[..., :length, :]
        place += num
    return stacked


def read(model: Any, caches: Caches, rows: Many[Tokens]) -> None:
    """Run the next tokens of every row of a batch, at least one of each, through the model, padded to the
    longest.
    """
    paddings = [max(map(len, rows)) - len(row) for row in rows]
    tokens = np.stack([np.pad(row, (0, padding)) for row, padding in zip(rows, paddings, strict=True)])
    layers = [layer for layer in leaves(caches) if not grows(layer)]
    if any(paddings):
        for layer in layers:
            layer.prepare(lengths=[len(row) for row in rows], right_padding=paddings)
    model(mx.array(tokens), cache=caches)
    evaluate(caches)
    for layer in layers:
        layer.finalize()
    for layer in leaves(caches):
        if any(paddings) and layer not in layers:
            _align_ends(layer, paddings)
    evaluate(caches)


def _align_ends(layer: Any, paddings: list[int]) -> None:
    """Move what the rows of a growing layer hold to its end, over their padding.

    Its own `finalize` gathers all rows anew.
    """
    end = layer.size()
    for row, padding in enumerate(paddings):
        for array in growing_arrays(layer) if padding else ():
            moved = mx.contiguous(array[row : row + 1, :, : end - padding])
            mx.eval(moved)
            array[row : row + 1, :, padding:end] = moved
    layer.offset -= mx.array(paddings)
    layer.left_padding += mx.array(paddings)


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
