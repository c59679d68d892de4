"""Caches of a sequence and of a batch: joining, filtering, extracting.

MLX thread only. Uses mlx-lm's cache classes (`merge`, `extend`, `filter`, `extract`) and our quantized ones,
and decides when their arrays are evaluated, because a lazy slice pins the buffer that it was cut from. Caches
are a list with one object per layer, as `make_prompt_cache` returns it. Growing layers of a batch have spare
rows where these take little memory, so that rows join and leave without a copy of the others.
"""

from collections import abc
from typing import Any

import mlx.core as mx
import numpy as np
from mlx.utils import tree_flatten

from mlxctl.engine.decoding.quantized_cache import BatchQuantizedKVCache, quantized
from mlxctl.engine.decoding.shared_caches import announce, number_of, successor
from mlxctl.engine.wire.rank_messages import BuildPass, CopyRow, FinishPass, JoinCaches, KeepRows, TakeRow
from mlxctl.ir.conversation_size import OUTPUT_RESERVE_TOKENS
from mlxctl.ir.kv_cache_size import KVFormats
from mlxctl.prefix_cache.records import growing_arrays, grows, leaves, set_arrays

Caches = list[Any]
Tokens = np.ndarray[Any, np.dtype[np.uint32]]

PIECE_BYTES = 256 * 1024 * 1024
"""Size of layers that are copied together: each evaluation waits for the device."""
# Positions of padding that all rows may have before they are cut off, which copies all rows.
_SPARE_PADDING = 256
# Rows leave without a copy while at most one position in eight is padding of all other rows.
_POSITIONS_PER_SPARE_PADDING = 8
SPARE_ROWS_BYTES = 256 * 1024 * 1024
"""Maximum memory of the spare rows of a batch; rows of long prompts have none."""


def new_caches(model: Any, kv_format: KVFormats | None = None) -> Caches:
    """Return empty caches for one sequence.

    `kv_format` quantizes those of layers that keep every token.
    """
    from mlx_lm.models.cache import make_prompt_cache

    caches = make_prompt_cache(model)
    return list(caches if kv_format is None else quantized(caches, kv_format))


def arrays(caches: Caches) -> list[mx.array]:
    """Return all arrays of the caches."""
    # The `state` of some of mlx-vlm's empty caches cannot be read.
    states = [layer.state for layer in leaves(caches) if getattr(layer, "keys", layer) is not None]
    return [leaf for _, leaf in tree_flatten(states) if isinstance(leaf, mx.array)]


def evaluate(caches: Caches) -> None:
    """Evaluate all arrays of caches.

    They then hold no graph and no parent buffer.
    """
    mx.eval(arrays(caches))


def join(
    parts: abc.Sequence[Caches],
    num_rows: abc.Sequence[int],
    *,
    spare_bytes: int = 0,
    piece_bytes: int = PIECE_BYTES,
) -> Caches:
    """Return one batch of all rows, in order.

    `num_rows` are those of each part. The parts must not be used again. If the first is a batch and the
    longest, the others are written after its rows, after one copy if it has too few spare rows. Otherwise
    all are copied, `piece_bytes` of layers at a time, so that memory does not double. A copy has new spare
    rows within `spare_bytes`. A part with one row may be caches of a single sequence.
    """
    extends = _first_is_longest_batch(parts)
    num_spare = _affordable_spare_rows(parts, num_rows, spare_bytes)
    joined: Caches = successor(
        parts[0],
        lambda number: JoinCaches(
            parts=list(map(number_of, parts)),
            num_rows=list(num_rows),
            spare_bytes=spare_bytes,
            piece_bytes=piece_bytes,
            joined=number,
        ),
    )
    num_bytes = 0
    for layers in zip(*parts, strict=True):
        joined.append(_joined(layers, num_rows, num_spare, extends=extends))
        for layer in layers:
            if layer is not joined[-1] and hasattr(layer, "keys"):
                layer.keys = layer.values = None
        num_bytes += sum(array.nbytes for array in arrays(joined[-1:]))
        if num_bytes > piece_bytes:
            evaluate(joined)
            num_bytes = 0
    evaluate(joined)
    return joined


def has_rows_for(parts: abc.Sequence[Caches], num_rows: abc.Sequence[int]) -> bool:
    """Whether the first part has spare rows for all others."""
    if not _first_is_longest_batch(parts):
        return False
    first = next(layer for layer in leaves(parts[0]) if grows(layer))
    return sum(num_rows) <= growing_arrays(first)[0].shape[0]


def _first_is_longest_batch(parts: abc.Sequence[Caches]) -> bool:
    """Whether the rows of other parts can follow those of the first."""
    growing = [layers for layers in zip(*(leaves(part) for part in parts), strict=True) if grows(layers[0])]
    return bool(growing) and all(
        hasattr(first, "left_padding")
        and growing_arrays(first)
        and first.size() >= max(other.size() for other in others)
        for first, *others in growing
    )


def _affordable_spare_rows(parts: abc.Sequence[Caches], num_rows: abc.Sequence[int], max_bytes: int) -> int:
    """Return half the number of rows, less where they take much memory."""
    if not max_bytes:
        return 0
    longest = max((layer.size() for part in parts for layer in leaves(part) if grows(layer)), default=0)
    row_bytes = max(sum(map(position_bytes, leaves(part))) for part in parts)
    row_bytes *= longest + OUTPUT_RESERVE_TOKENS
    return min(sum(num_rows) // 2, max_bytes // max(1, row_bytes))


def position_bytes(layer: Any) -> int:
    """Return the bytes of a row's position in a growing layer."""
    held = growing_arrays(layer) if grows(layer) else []
    return sum(array.shape[1] * array.shape[3] * array.itemsize for array in held)


def _joined(layers: abc.Sequence[Any], num_rows: abc.Sequence[int], num_spare: int, *, extends: bool) -> Any:
    if hasattr(layers[0], "caches"):
        parts = zip(*(layer.caches for layer in layers), strict=True)
        return type(layers[0])(*(_joined(part, num_rows, num_spare, extends=extends) for part in parts))
    if grows(layers[0]):
        return (_extended if extends else _joined_growing)(layers, num_rows, num_spare)
    first, *others = [
        layer if num > 1 else layer.merge([layer]) for layer, num in zip(layers, num_rows, strict=True)
    ]
    for other in others:
        first.extend(other)
    return first


def _extended(layers: abc.Sequence[Any], num_rows: abc.Sequence[int], num_spare: int) -> Any:
    """Write the rows of the other layers after those of the first."""
    first, *others = layers
    held = growing_arrays(first)
    if sum(num_rows) > held[0].shape[0]:
        num_more = sum(num_rows) + num_spare - held[0].shape[0]
        held = [mx.pad(array, [(0, num_more), (0, 0), (0, 0), (0, 0)]) for array in held]
        set_arrays(first, held)
    place, end = num_rows[0], first.size()
    for layer, num in zip(others, num_rows[1:], strict=True):
        length = layer.size()
        if length:
            for array, added in zip(held, growing_arrays(layer), strict=True):
                array[place : place + num, :, end - length : end] = added[:num, :, :length]
        place += num
    first.left_padding = mx.array(_paddings(layers, end))
    first.offset = end - first.left_padding
    return first


def _paddings(layers: abc.Sequence[Any], end: int) -> list[int]:
    """Return the padding of each row in a batch of `end` positions."""
    return [
        padding + end - layer.size()
        for layer in layers
        for padding in (layer.left_padding.tolist() if hasattr(layer, "left_padding") else [0])
    ]


def _joined_growing(layers: abc.Sequence[Any], num_rows: abc.Sequence[int], num_spare: int) -> Any:
    """Join growing layers in one copy.

    With space for the answer and for `num_spare` more rows. `merge` and `extend` copy more.
    """
    lengths = [layer.size() for layer in layers]
    longest = max(lengths)
    joined = _empty_batch(layers[0], _paddings(layers, longest))
    held = [growing_arrays(layer) for layer in layers]
    if num_arrays := max(map(len, held)):
        columns = ([arrays[place] if arrays else None for arrays in held] for place in range(num_arrays))
        set_arrays(joined, [_stacked(column, num_rows, lengths, num_spare) for column in columns])
        joined.state = joined.keys, joined.values, joined.offset + longest, joined.left_padding, longest
    return joined


def _empty_batch(layer: Any, left_padding: list[int]) -> Any:
    """Return an empty batch of the layer's kind."""
    if hasattr(layer, "kv_format"):
        return BatchQuantizedKVCache(layer.kv_format, left_padding)
    # PERF: it imports mlx_lm's layers, which the engine need not have at its start.
    from mlxctl.engine.decoding.spare_rows import SpareRowsKVCache

    return SpareRowsKVCache(left_padding)


def _stacked(
    arrays: abc.Sequence[mx.array | None],
    num_rows: abc.Sequence[int],
    lengths: abc.Sequence[int],
    num_spare: int,
) -> mx.array:
    """Return one array (rows, heads, tokens, dim) of all rows.

    Rows are aligned at their ends. None stands for a row without content.
    """
    first = next(array for array in arrays if array is not None)
    (_, heads, _, dim), dtype, longest = first.shape, first.dtype, max(lengths)
    shape = sum(num_rows) + num_spare, heads, longest + OUTPUT_RESERVE_TOKENS, dim
    stacked = mx.zeros(shape, dtype=dtype)
    place = 0
    for array, num, length in zip(arrays, num_rows, lengths, strict=True):
        if array is not None and length:
            stacked[place : place + num, :, longest - length : longest] = array[:num, :, :length]
        place += num
    return stacked


def forward(model: Any, caches: Caches, rows: abc.Sequence[Tokens], **shifts: mx.array) -> None:
    """Run the next tokens of every row, padded to the longest.

    Every row has at least one token. `shifts` are those of the model's positions, if it has them.
    """
    paddings = begin_forward(model, caches, rows, **shifts)
    evaluate(caches)
    finish_forward(caches, paddings)


def begin_forward(model: Any, caches: Caches, rows: abc.Sequence[Tokens], **shifts: mx.array) -> list[int]:
    """Build the pass of `forward`; return the padding of each row.

    After it is evaluated, `finish_forward` makes the caches usable.
    """
    paddings = [max(map(len, rows)) - len(row) for row in rows]
    tokens = np.stack([np.pad(row, (0, padding)) for row, padding in zip(rows, paddings, strict=True)])
    announce(caches, lambda number: BuildPass(caches=number, tokens=tokens.tobytes(), paddings=paddings))
    if any(paddings):
        for layer in _layers_with_lengths(caches):
            layer.prepare(lengths=[len(row) for row in rows], right_padding=paddings)
    model(mx.array(tokens), cache=caches, **shifts)
    return paddings


def finish_forward(caches: Caches, paddings: list[int]) -> None:
    """Align the rows of an evaluated pass at their ends."""
    announce(caches, lambda number: FinishPass(caches=number))
    for layer in _layers_with_lengths(caches):
        layer.finalize()
    align_ends(caches, paddings)
    evaluate(caches)


def _layers_with_lengths(caches: Caches) -> list[Any]:
    """Return the layers that need the length of each row.

    These do not grow.
    """
    return [layer for layer in leaves(caches) if not grows(layer)]


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


def keep_rows(caches: Caches, rows: list[int], *, frees: bool = False) -> None:
    """Drop all rows but `rows`, and put these in order.

    Where the dropped rows take little memory, only rows that change their place are copied. With `frees`
    their memory is free at once, and layers are copied one after the other.
    """
    announce(caches, lambda number: KeepRows(caches=number, rows=rows, frees=frees))
    moves = not frees and _may_stay_allocated(caches, rows)
    for layer in leaves(caches):
        if moves and grows(layer):
            _move(layer, rows)
        else:
            layer.filter(rows)
        if frees:
            evaluate([layer])
    evaluate(caches)


def fewest_moves(rows: list[int]) -> list[int]:
    """Return ascending `rows` in the order that changes the fewest places.

    The last ones take the places of those that are missing.
    """
    last = [row for row in rows if row >= len(rows)]
    staying = set(rows)
    return [place if place in staying else last.pop() for place in range(len(rows))]


def _may_stay_allocated(caches: Caches, rows: list[int]) -> bool:
    """Whether places of rows that leave may become spare rows.

    Not if these take much memory, or if all other rows have much padding, which a copy cuts off.
    """
    growing = [layer for layer in leaves(caches) if grows(layer) and growing_arrays(layer)]
    if not growing:
        return False
    num_bytes = sum(
        array.nbytes // array.shape[0] * (array.shape[0] - len(rows))
        for layer in growing
        for array in growing_arrays(layer)
    )
    padding: Any = mx.min(growing[0].left_padding[mx.array(rows)]).item()
    allowed = min(_SPARE_PADDING - 1, growing[0].size() // _POSITIONS_PER_SPARE_PADDING)
    return num_bytes <= SPARE_ROWS_BYTES and padding <= allowed


def _move(layer: Any, rows: list[int]) -> None:
    """Move `rows` to the first places of a growing layer."""
    moved = [(place, row) for place, row in enumerate(rows) if place != row]
    end = layer.size()
    for array in growing_arrays(layer) if moved else ():
        copies = [mx.contiguous(array[row : row + 1, :, :end]) for _, row in moved]
        mx.eval(copies)
        for (place, _), copy in zip(moved, copies, strict=True):
            array[place : place + 1, :, :end] = copy
    chosen = mx.array(rows)
    layer.offset, layer.left_padding = layer.offset[chosen], layer.left_padding[chosen]


def extract_row(caches: Caches, index: int) -> Caches:
    """Return a copy of one row, as caches of a sequence."""
    row = successor(caches, lambda number: CopyRow(caches=number_of(caches), row=index, copy=number))
    for layer in caches:
        row.append(layer.extract(index))
        _detach(row[-1])
    evaluate(row)
    return row


def take_row(caches: Caches, index: int, *, piece_bytes: int = PIECE_BYTES) -> Caches:
    """Return one row as caches of a sequence, which ends the batch.

    Its layers are freed while the row is copied, `piece_bytes` at a time.
    """
    row = successor(caches, lambda number: TakeRow(caches=number_of(caches), row=index, taken=number))
    num_bytes = 0
    for layer in caches:
        row.append(layer.extract(index))
        _detach(row[-1])
        num_bytes += sum(array.nbytes for array in arrays(row[-1:]))
        if num_bytes > piece_bytes:
            evaluate(row)
            num_bytes = 0
        for leaf in leaves([layer]):
            if hasattr(leaf, "keys"):
                leaf.keys = leaf.values = None
    evaluate(row)
    return row


def _detach(layer: Any) -> None:
    # Recurrent layers extract a bare slice, which keeps the whole batch alive even after it was evaluated.
    for child in getattr(layer, "caches", ()):
        _detach(child)
    states = getattr(layer, "cache", None)
    if isinstance(states, list):
        layer.cache = [None if state is None else mx.contiguous(state) for state in states]
