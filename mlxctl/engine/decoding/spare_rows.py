"""A batch's cache with room for more rows. MLX thread only."""

from typing import Any

import mlx.core as mx
from mlx_lm.models.cache import BatchKVCache

from mlxctl.engine.decoding.quantized_cache import grown


class SpareRowsKVCache(BatchKVCache):  # type: ignore[misc]
    """mlx-lm's batch cache, of which only the first rows are in use.

    `keys` and `values` are (capacity, heads, positions, dim). The rows in use are those of `offset`, so that
    a row joins or leaves without a copy of the others.
    """

    keys: Any
    values: Any
    offset: mx.array
    _idx: int

    def update_and_fetch(self, keys: mx.array, values: mx.array) -> tuple[mx.array, mx.array]:
        """Add keys and values (rows, heads, tokens, dim); return all of them."""
        num_rows, _, num_tokens, _ = keys.shape
        start, end = self._idx, self._idx + num_tokens
        if self.keys is None or end > self.keys.shape[2]:
            more = -(-num_tokens // self.step) * self.step
            self.keys, self.values = (
                grown(self.keys, keys, start, more),
                grown(self.values, values, start, more),
            )
        self.keys[:num_rows, :, start:end] = keys
        self.values[:num_rows, :, start:end] = values
        self.offset = self.offset + num_tokens
        self._idx = end
        fetched: tuple[mx.array, mx.array] = self.keys_and_values()
        return fetched

    def keys_and_values(self) -> tuple[mx.array, mx.array]:
        """Return keys and values of the rows in use."""
        num_rows = self.offset.size
        return self.keys[:num_rows, :, : self._idx], self.values[:num_rows, :, : self._idx]
