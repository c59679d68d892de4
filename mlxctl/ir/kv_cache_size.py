"""Size of the cache of one sequence. Pure."""

from collections.abc import Sequence

KVWindow = tuple[int, int]
"""Layers with a sliding window: its length in tokens, and their bytes per token."""

_MAX_TOKENS = 1 << 40


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
