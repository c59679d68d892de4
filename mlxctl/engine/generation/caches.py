"""Caches of a sequence and of a batch: joining, filtering, extracting.

MLX thread only. Uses mlx-lm's cache classes (`merge`, `extend`, `filter`, `extract`) and our quantized ones,
and decides when their arrays are evaluated, because a lazy slice pins the buffer that it was cut from. Caches
are a list with one object per layer, as `make_prompt_cache` returns it.
"""

from collections.abc import Sequence as Many
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlxctl.engine.generation.quantized_cache import BatchQuantizedKVCache, quantized
from mlxctl.engine.scheduling.sequence import OUTPUT_RESERVE_TOKENS
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.prefix_cache.records import growing_arrays, grows, hold, leaves

Caches = list[Any]
Tokens = np.ndarray[Any, np.dtype[np.uint32]]

# Joined layers are evaluated together up to this size: each evaluation waits for the device.
_JOIN_BYTES = 256 * 1024 * 1024
# Positions of padding that all rows may have before they are cut off, which copies all rows.
_SPARE_PADDING = 256


def new_caches(model: Any, form: KVFormats | None = None) -> Caches:
    """Return empty caches for one sequence.

    `form` quantizes those of layers that keep every token.
    """
    from mlx_lm.models.cache import make_prompt_cache

    caches = make_prompt_cache(model)
    return list(caches if form is None else quantized(caches, form))


def arrays(caches: Caches) -> list[mx.array]:
    """Return all arrays of the caches."""
    return [leaf for _, leaf in tree_flatten([layer.state for layer in caches]) if isinstance(leaf, mx.array)]


def evaluate(caches: Caches) -> None:
    """Evaluate all arrays of caches.

    They then hold no graph and no parent buffer.
    """
    mx.eval(arrays(caches))


def join(parts: Many[Caches], num_rows: Many[int]) -> Caches:
    """Return one batch of all rows, in order.

    `num_rows` are those of each part. The parts must not be used again. They are copied some layers at a
    time, so that memory does not double. A part with one row may be caches of a single sequence.
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
    """Join growing layers in one copy, with space for the answer.

    `merge` and `extend` copy more.
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
    """Return an empty batch of the layer's kind."""
    from mlx_lm.models.cache import BatchKVCache

    return (
        BatchQuantizedKVCache(layer.form, left_padding)
        if hasattr(layer, "form")
        else BatchKVCache(left_padding)
    )


def _stacked(arrays: Many[mx.array | None], num_rows: Many[int], lengths: Many[int]) -> mx.array:
    """Return one array (rows, heads, tokens, dim) of all rows.

    Rows are aligned at their ends. None stands for a row without content.
    """
    first = next(array for array in arrays if array is not None)
    (_, heads, _, dim), dtype, longest = first.shape, first.dtype, max(lengths)
    stacked = mx.zeros((sum(num_rows), heads, longest + OUTPUT_RESERVE_TOKENS, dim), dtype=dtype)
    place = 0
    for array, num, length in zip(arrays, num_rows, lengths, strict=True):
        if array is not None and length:
            stacked[place : place + num, :, longest - length : longest] = array[..., :length, :]
        place += num
    return stacked


def read(model: Any, caches: Caches, rows: Many[Tokens], **shifts: mx.array) -> None:
    """Run the next tokens of every row, padded to the longest.

    Every row has at least one token. `shifts` are those of the model's positions, if it has them.
    """
    paddings = [max(map(len, rows)) - len(row) for row in rows]
    tokens = np.stack([np.pad(row, (0, padding)) for row, padding in zip(rows, paddings, strict=True)])
    layers = [layer for layer in leaves(caches) if not grows(layer)]
    if any(paddings):
        for layer in layers:
            layer.prepare(lengths=[len(row) for row in rows], right_padding=paddings)
    model(mx.array(tokens), cache=caches, **shifts)
    evaluate(caches)
    for layer in layers:
        layer.finalize()
    align_ends(caches, paddings)
    evaluate(caches)


def align_ends(caches: Caches, paddings: list[int]) -> None:
    """Align the rows of growing layers at their ends.

    Each row moves over its padding. The layers' own `finalize` copies all rows.
    """
    for layer in leaves(caches) if any(paddings) else ():
        if not grows(layer):
            continue
        end = layer.size()
        for row, padding in enumerate(paddings):
            for array in growing_arrays(layer) if padding else ():
                moved = mx.contiguous(array[row : row + 1, :, : end - padding])
                mx.eval(moved)
                array[row : row + 1, :, padding:end] = moved
        layer.offset -= mx.array(paddings)
        layer.left_padding += mx.array(paddings)


def drop_spare_padding(caches: Caches) -> None:
    """Cut off much padding that all rows of a batch have.

    It grows while rows drop different numbers of tokens.
    """
    padding = next(layer for layer in leaves(caches) if grows(layer)).left_padding
    least: Any = mx.min(padding).item()
    if least >= _SPARE_PADDING:
        keep_rows(caches, list(range(padding.size)))


def keep_rows(caches: Caches, indices: list[int]) -> None:
    """Drop all rows but `indices`, in place."""
    for layer in caches:
        layer.filter(indices)
    evaluate(caches)


def extract_row(caches: Caches, index: int) -> Caches:
    """Return a copy of one row, as caches of a sequence."""
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
