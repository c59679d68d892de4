"""Caches with quantized keys and values. MLX thread only.

mlx-lm's attention computes with quantized keys and values when a cache has `bits`, but its own
`QuantizedKVCache` holds one sequence and joins no batch. Keys and values are three arrays each: packed
numbers, scales, biases, of shape (rows, heads, positions, n).
"""

from collections.abc import Iterable, Iterator
from typing import Any

import mlx.core as mx

from mlxctl.ir import KVFormat
from mlxctl.ir.kv_cache_size import KVFormats, layer_format

Packed = tuple[mx.array, ...]

# Room grows in steps of this many tokens, as in mlx-lm's caches.
_STEP_TOKENS = 256


class _Growing:
    """Arrays that grow, for caches of a sequence and a batch."""

    def __init__(self, kv_format: KVFormat) -> None:
        self.bits = kv_format.bits
        self.group_size = kv_format.group_size
        self.keys: Packed | None = None
        self.values: Packed | None = None

    @property
    def kv_format(self) -> KVFormat:
        """The quantization of its keys and values."""
        return KVFormat(bits=self.bits, group_size=self.group_size)

    def empty(self) -> bool:
        """Return whether it holds no tokens."""
        return self.keys is None

    def is_trimmable(self) -> bool:
        """Return whether its last tokens can be dropped."""
        return True

    def _append(self, keys: mx.array, values: mx.array, end: int) -> tuple[Packed, Packed]:
        """Write quantized keys and values up to position `end`.

        Returns all up to there.
        """
        new_end = end + keys.shape[2]
        self.keys = self._put(self.keys, keys, end, new_end)
        self.values = self._put(self.values, values, end, new_end)
        num_rows = keys.shape[0]
        return _first(self.keys, num_rows, new_end), _first(self.values, num_rows, new_end)

    def _put(self, held: Packed | None, new: mx.array, end: int, new_end: int) -> Packed:
        packed = mx.quantize(new, group_size=self.group_size, bits=self.bits)
        if held is None or new_end > held[0].shape[2]:
            room = -(-(new_end - end) // _STEP_TOKENS) * _STEP_TOKENS
            held = tuple(
                grown(array, part, end, room) for array, part in zip(held or [None] * 3, packed, strict=True)
            )
        for array, part in zip(held, packed, strict=True):
            array[: part.shape[0], :, end:new_end] = part
        return held


class PreallocatedQuantizedKVCache(_Growing):
    """The cache of one sequence, with `offset` tokens."""

    def __init__(self, kv_format: KVFormat) -> None:
        super().__init__(kv_format)
        self.offset = 0

    @property
    def state(self) -> tuple[Any, ...]:
        """Its arrays and its number of tokens."""
        return self.keys, self.values, self.offset

    def size(self) -> int:
        """Return its number of tokens."""
        return self.offset

    def trim(self, num_tokens: int) -> int:
        """Drop its last `n` tokens, at most all; return how many."""
        num_tokens = min(self.offset, num_tokens)
        self.offset -= num_tokens
        return num_tokens

    def make_mask(self, num_tokens: int, return_array: bool = False, window_size: int | None = None) -> Any:
        """Return the attention mask of the next `num_tokens` tokens, for mlx-lm's models."""
        from mlx_lm.models.cache import create_attention_mask

        return create_attention_mask(
            num_tokens, offset=self.offset, return_array=return_array, window_size=window_size
        )

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Packed, Packed]:
        """Add keys and values (1, heads, tokens, dim); return all, quantized."""
        fetched = self._append(keys, values, self.offset)
        self.offset += keys.shape[2]
        return fetched


class BatchQuantizedKVCache(_Growing):
    """The cache of several rows, aligned at their ends by `left_padding`.

    `offset` (rows,) are the tokens of each row, `length` those of the longest with its padding. The arrays
    may have room for more rows, after these.
    """

    def __init__(self, kv_format: KVFormat, left_padding: list[int]) -> None:
        super().__init__(kv_format)
        self.left_padding = mx.array(left_padding)
        self.offset = -self.left_padding
        self.length = 0

    @property
    def state(self) -> tuple[Any, ...]:
        """Arrays and number of positions, in mlx-lm's batch order."""
        return self.keys, self.values, self.offset, self.left_padding, self.length

    @state.setter
    def state(self, state: tuple[Any, ...]) -> None:
        self.keys, self.values, self.offset, self.left_padding, self.length = state

    def size(self) -> int:
        """Return the positions in use, padding included."""
        return self.length

    def make_mask(
        self,
        num_tokens: int,
        return_array: bool = False,  # noqa: ARG002
        window_size: int | None = None,
    ) -> mx.array:
        """Return the attention mask of each row's next `num_tokens` tokens, for mlx-lm."""
        from mlx_lm.models.base import create_causal_mask

        mask: mx.array = create_causal_mask(
            num_tokens, offset=self.length, left_padding=self.left_padding, window_size=window_size
        )
        return mask

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[Packed, Packed]:
        """Add keys and values (rows, heads, tokens, dim); return all, quantized."""
        fetched = self._append(keys, values, self.length)
        self.offset = self.offset + keys.shape[2]
        self.length += keys.shape[2]
        return fetched

    def trim(self, num_tokens: int) -> int:
        """Drop the last positions of every row; return how many."""
        num_tokens = min(self.length, num_tokens)
        self.length -= num_tokens
        self.offset = self.offset - num_tokens
        return num_tokens

    def filter(self, rows: list[int]) -> None:
        """Keep these rows, with no more padding than they need."""
        chosen = mx.array(rows)
        self.offset, paddings = self.offset[chosen], self.left_padding[chosen]
        spare: Any = mx.min(paddings).item()
        self.left_padding = paddings - spare
        self.length -= spare
        if self.keys is not None and self.values is not None:
            self.keys = tuple(array[chosen][..., spare:, :] for array in self.keys)
            self.values = tuple(array[chosen][..., spare:, :] for array in self.values)

    def extract(self, row: int) -> PreallocatedQuantizedKVCache:
        """Return a copy of a row."""
        one = PreallocatedQuantizedKVCache(self.kv_format)
        if self.keys is not None and self.values is not None:
            padding: Any = self.left_padding[row].item()
            span = slice(padding, self.length)
            one.keys = tuple(mx.contiguous(array[row : row + 1, :, span]) for array in self.keys)
            one.values = tuple(mx.contiguous(array[row : row + 1, :, span]) for array in self.values)
            one.offset = self.length - padding
        return one


def quantized(caches: Iterable[Any], formats: KVFormats) -> Iterator[Any]:
    """Return the caches with quantized ones for layers that keep every token."""
    for index, layer in enumerate(caches):
        kv_format = layer_format(formats, index)
        yield layer if kv_format is None else _quantized_layer(layer, kv_format)


def _quantized_layer(layer: Any, kv_format: KVFormat) -> Any:
    if hasattr(layer, "caches"):
        return type(layer)(*(_quantized_layer(part, kv_format) for part in layer.caches))
    return PreallocatedQuantizedKVCache(kv_format) if type(layer).__name__ == "KVCache" else layer


def grown(array: mx.array | None, part: mx.array, end: int, num_more: int) -> mx.array:
    """Return `array` up to position `end` with room for more positions.

    None for the first `part` that is written.
    """
    rows, heads, _, width = part.shape if array is None else array.shape
    room = mx.zeros((rows, heads, num_more, width), dtype=part.dtype)
    return room if array is None else mx.concatenate([array[:, :, :end], room], axis=2)


def _first(packed: Packed, num_rows: int, end: int) -> Packed:
    return tuple(array[:num_rows, :, :end] for array in packed)
