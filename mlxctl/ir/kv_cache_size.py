"""KV cache of one sequence: its quantization and its size. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

KVWindow = tuple[int, int]
"""Layers with a sliding window: its length in tokens, and their bytes per token."""

_MAX_TOKENS = 1 << 40


@dataclass(frozen=True, slots=True, kw_only=True)
class KVFormat:
    """Quantization of keys and values: bits per number, and group size.

    Each group of `group_size` numbers of a head has a scale and a bias in the model's own precision.
    """

    bits: int
    group_size: int

    def num_bytes(self, num_float_bytes: int, *, float_bytes: int) -> int:
        """Return the size of a float cache in this format.

        It takes `num_float_bytes` in floats of `float_bytes` each.
        """
        numbers = num_float_bytes // float_bytes
        return numbers * self.bits // 8 + 2 * float_bytes * numbers // self.group_size


LayerKVFormats = tuple[tuple[int, KVFormat], ...]
"""Formats by the index of a layer; other layers are not quantized."""

KVPrecision = int | Literal["config"] | None
"""Precision of a loaded model's KV cache: bits, by layer (`config`), or not quantized (None)."""

KVFormats = KVFormat | LayerKVFormats
"""One format of all layers, or formats by layer."""


def layer_format(formats: KVFormats, layer: int) -> KVFormat | None:
    """Return the format of a layer; None if it is not quantized."""
    return formats if isinstance(formats, KVFormat) else dict(formats).get(layer)


def cache_bytes(num_tokens: int, *, bytes_per_token: int, windows: Sequence[KVWindow] = ()) -> int:
    """Return the bytes of a cache; `bytes_per_token` includes the layers of `windows`."""
    beyond = sum(size * max(0, num_tokens - window) for window, size in windows)
    return bytes_per_token * num_tokens - beyond


def tokens_within(num_bytes: int, *, bytes_per_token: int, windows: Sequence[KVWindow] = ()) -> int:
    """Return the length of the largest cache within `num_bytes`, in tokens."""
    fits, fails = 0, _MAX_TOKENS
    while fails - fits > 1:
        middle = (fits + fails) // 2
        if cache_bytes(middle, bytes_per_token=bytes_per_token, windows=windows) <= num_bytes:
            fits = middle
        else:
            fails = middle
    return fits
