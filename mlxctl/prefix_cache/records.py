"""Records: arrays cut from a sequence's caches and restored into new ones.

MLX thread only. The only module that reads cache objects of mlx-lm and mlx-vlm. Layers whose keys and values
grow with the sequence, quantized or not, are cut by position; layers of one shape are stacked into one array,
since the number of live buffers is limited: 2 arrays a chunk (6 if quantized), not 2 a layer. All other
layers (recurrent, convolution, sliding window) are stored whole, as a state at one position. Records are
contiguous and evaluated: a view would keep the buffer alive that it was cut from.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import mlx.core as mx
from mlx.utils import tree_flatten, tree_map

# Our cache classes, of one sequence and of a batch.
_GROWING = frozenset({"SpareRowsKVCache", "PreallocatedQuantizedKVCache", "BatchQuantizedKVCache"})


@dataclass(frozen=True, slots=True)
class KVRecord:
    """Keys and values of consecutive positions, in groups of equally shaped layers.

    Each array is (layers, heads, positions, dim). A group of quantized layers has six arrays: packed numbers,
    scales and biases of the keys, then of the values. `layers` are the layer indices of each group.
    """

    layers: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[mx.array, ...], ...]

    @property
    def num_bytes(self) -> int:
        """Bytes on the device."""
        return sum(array.nbytes for group in self.groups for array in group)

    @property
    def num_buffers(self) -> int:
        """Buffers on the device."""
        return sum(map(len, self.groups))


@dataclass(frozen=True, slots=True)
class StateRecord:
    """States of all layers that cannot be cut, in layer order."""

    states: tuple[Any, ...]

    @property
    def num_bytes(self) -> int:
        """Bytes on the device."""
        return sum(leaf.nbytes for _, leaf in tree_flatten(list(self.states)) if isinstance(leaf, mx.array))

    @property
    def num_buffers(self) -> int:
        """Buffers on the device."""
        return sum(isinstance(leaf, mx.array) for _, leaf in tree_flatten(list(self.states)))


class CacheLayout:
    """Which layers of a model can be cut, and in which groups.

    Layers of a group have the same shape.
    """

    def __init__(self, caches: Sequence[Any]) -> None:
        kinds = [grows(layer) for layer in leaves(caches)]
        self._cut = [index for index, is_growing in enumerate(kinds) if is_growing]
        self._whole = [index for index, is_growing in enumerate(kinds) if not is_growing]
        self._groups: tuple[tuple[int, ...], ...] | None = None

    @property
    def has_states(self) -> bool:
        """Whether some layers can only be restored at checkpoints."""
        return bool(self._whole)

    def accepts(self, record: KVRecord | StateRecord, num_tokens: int) -> bool:
        """Whether a record has this model's layers, and `num_tokens` positions."""
        if isinstance(record, StateRecord):
            return len(record.states) == len(self._whole)
        layers = sorted(index for group in record.layers for index in group)
        shapes = [array.shape for arrays in record.groups for array in arrays]
        sizes = [
            (len(group), num_tokens)
            for group, arrays in zip(record.layers, record.groups, strict=False)
            for _ in arrays
        ]
        return layers == self._cut and [(shape[0], shape[2]) for shape in shapes if len(shape) == 4] == sizes

    def cut(self, caches: Sequence[Any], start: int, end: int, *, row: int | None = None) -> KVRecord:
        """Return the positions `start` to `end` of a sequence or batch row."""
        layers = list(leaves(caches))
        # All layers of a batch are padded alike.
        padding = 0 if row is None or not self._cut else int(layers[self._cut[0]].left_padding[row].item())
        span = slice(padding + start, padding + end)
        batch_row = row or 0
        spans = {
            index: [array[batch_row, :, span] for array in growing_arrays(layers[index])]
            for index in self._cut
        }
        if self._groups is None:
            self._groups = _grouped(spans)
        groups = tuple(
            tuple(mx.stack(list(arrays)) for arrays in zip(*(spans[index] for index in group), strict=True))
            for group in self._groups
        )
        mx.eval([array for arrays in groups for array in arrays])
        return KVRecord(self._groups, groups)

    def cut_bytes(self, caches: Sequence[Any], num_tokens: int) -> int:
        """Return the size of a record of this many positions."""
        layers = list(leaves(caches))
        arrays = [array for index in self._cut for array in growing_arrays(layers[index])]
        return sum(array.nbytes // (array.shape[0] * array.shape[2]) * num_tokens for array in arrays)

    def snapshot_bytes(self, caches: Sequence[Any], *, row: int | None = None) -> int:
        """Return the size of a state record."""
        layers = list(leaves(caches))
        states = [whole_state(layers[index]) for index in self._whole]
        arrays = [leaf for _, leaf in tree_flatten(states) if isinstance(leaf, mx.array)]
        return sum(array.nbytes // (1 if row is None else max(1, array.shape[0])) for array in arrays)

    def snapshot(self, caches: Sequence[Any], *, row: int | None = None) -> StateRecord:
        """Return a copy of the states of layers that cannot be cut."""
        layers = list(leaves(caches))
        whole = [layers[index] if row is None else layers[index].extract(row) for index in self._whole]
        states = tuple(tree_map(_copied, whole_state(layer)) for layer in whole)
        mx.eval([leaf for _, leaf in tree_flatten(list(states)) if isinstance(leaf, mx.array)])
        return StateRecord(states)

    def restore(
        self,
        caches: Sequence[Any],
        records: Sequence[KVRecord],
        num_tokens: int,
        state: StateRecord | None,
        *,
        capacity: int,
        is_lazy: bool = False,
    ) -> None:
        """Fill empty `caches` with `num_tokens` positions of consecutive records, and a state.

        Each array is copied once, into one with room for `capacity` tokens, so that later tokens need no new
        copy. With `is_lazy` nothing is evaluated yet.
        """
        layers = list(leaves(caches))
        num_more = max(0, capacity - num_tokens)
        for group_index, group in enumerate(records[0].layers if records else ()):
            for group_row, layer_index in enumerate(group):
                pieces = [[array[group_row] for array in record.groups[group_index]] for record in records]
                set_arrays(
                    layers[layer_index],
                    [_joined(run, num_tokens, num_more) for run in zip(*pieces, strict=True)],
                )
                layers[layer_index].offset = num_tokens
        for layer_index, layer_state in zip(
            self._whole, state.states if state is not None else (), strict=bool(state)
        ):
            set_whole_state(layers[layer_index], tree_map(_copied, layer_state))
        if not is_lazy:
            mx.eval(
                [
                    leaf
                    for _, leaf in tree_flatten([layer.state for layer in caches])
                    if isinstance(leaf, mx.array)
                ]
            )


def leaves(caches: Sequence[Any]) -> Iterator[Any]:
    """Yield the layers of caches in order.

    A composite layer yields its parts.
    """
    for layer in caches:
        children = getattr(layer, "caches", None)
        if children is None:
            yield layer
        else:
            yield from leaves(children)


def grows(layer: Any) -> bool:
    """Whether the layer keeps every token and can be cut anywhere."""
    return _keeps_positions(type(layer))  # type: ignore[arg-type]


@cache
def _keeps_positions(kind: type) -> bool:
    """Whether a class holds keys and values by position only.

    Tried with one that is given arrays with room, as a restored prefix has.
    """
    if kind.__name__ in _GROWING:
        return True
    try:
        tried = kind()
        if set(vars(tried)) != {"keys", "values", "offset"}:
            return False
        token = mx.ones((1, 1, 1, 1))
        tried.update_and_fetch(token, token)
        tried.keys, tried.values = mx.zeros((1, 1, 4, 1)), mx.zeros((1, 1, 4, 1))
        held = tried.update_and_fetch(token, token)
        is_cut = tried.trim(1) == 1 and (tried.offset, tried.size()) == (1, 1)
        return is_cut and [array[0, 0, :, 0].tolist() for array in held] == [[0, 1], [0, 1]]
    except (TypeError, ValueError, AttributeError):
        # A class of another shape.
        return False


def whole_state(layer: Any) -> Any:
    """Return all that a layer holds which cannot be cut.

    It is a tree of arrays and plain values. mlx-lm's `state` is complete. mlx-vlm's caches keep numbers
    beside it, and have a method for this. Where `state` can only be read, it is all attributes.
    """
    if hasattr(layer, "prefix_cache_snapshot"):
        return layer.prefix_cache_snapshot()
    if not _takes_state(type(layer)):
        return dict(vars(layer))
    return (layer.state, layer.meta_state) if hasattr(layer, "meta_state") else layer.state


def set_whole_state(layer: Any, state: Any) -> None:
    """Give an empty layer what `whole_state` returned."""
    if hasattr(layer, "prefix_cache_restore"):
        layer.prefix_cache_restore(state)
    elif not _takes_state(type(layer)):
        vars(layer).update(state)
    elif hasattr(layer, "meta_state"):
        layer.state, layer.meta_state = state
    else:
        layer.state = state


def _takes_state(kind: type) -> bool:
    found = getattr(kind, "state", None)
    return not isinstance(found, property) or found.fset is not None


def growing_arrays(layer: Any) -> list[mx.array]:
    """Return a layer's arrays that grow along the third axis.

    Empty before the first token.
    """
    if layer.keys is None:
        return []
    return [*layer.keys, *layer.values] if isinstance(layer.keys, tuple) else [layer.keys, layer.values]


def set_arrays(layer: Any, arrays: Sequence[mx.array]) -> None:
    """Replace a layer's arrays, in the order of `growing_arrays`."""
    half = len(arrays) // 2
    is_quantized = half > 1
    layer.keys = tuple(arrays[:half]) if is_quantized else arrays[0]
    layer.values = tuple(arrays[half:]) if is_quantized else arrays[1]


def _grouped(spans: dict[int, list[mx.array]]) -> tuple[tuple[int, ...], ...]:
    groups: dict[Any, list[int]] = {}
    for index, arrays in spans.items():
        groups.setdefault(
            tuple((array.shape[0], array.shape[2], array.dtype) for array in arrays), []
        ).append(index)
    return tuple(map(tuple, groups.values()))


def _joined(pieces: Sequence[mx.array], num_tokens: int, num_more: int) -> mx.array:
    num_before = sum(piece.shape[1] for piece in pieces[:-1])
    last = pieces[-1][:, : num_tokens - num_before]
    padding = mx.zeros((last.shape[0], num_more, last.shape[2]), dtype=last.dtype)
    return mx.concatenate([*pieces[:-1], last, padding], axis=1)[None]


def _copied(leaf: Any) -> Any:
    # A new array: cache classes write into theirs in place, and a write copies the buffer if it is shared.
    return mx.contiguous(leaf) + 0 if isinstance(leaf, mx.array) else leaf
