"""Bytes of caches and lengths that fit, as inverse functions."""

from hypothesis import given
from hypothesis import strategies as st

from mlxctl.ir.kv_cache_size import KVFormat, cache_bytes, layer_format, tokens_within

WINDOWS = st.lists(st.tuples(st.integers(1, 4096), st.integers(1, 1 << 12)), max_size=3)


@given(st.integers(0, 1 << 34), st.integers(1, 1 << 12), WINDOWS)
def test_longest_cache_within_a_size_fits_and_one_token_more_does_not(
    size: int, global_bytes: int, windows: list[tuple[int, int]]
) -> None:
    per_token = global_bytes + sum(num_bytes for _, num_bytes in windows)
    longest = tokens_within(size, bytes_per_token=per_token, windows=windows)
    assert cache_bytes(longest, bytes_per_token=per_token, windows=windows) <= size
    assert cache_bytes(longest + 1, bytes_per_token=per_token, windows=windows) > size


def test_layers_with_a_window_stop_growing() -> None:
    at_window, later = (cache_bytes(num, bytes_per_token=10, windows=[(100, 4)]) for num in (100, 1100))
    assert at_window == 1000
    assert later - at_window == 1000 * 6


def test_quantized_cache_has_bits_and_two_floats_for_each_group() -> None:
    assert KVFormat(bits=8, group_size=64).num_bytes(2 * 128, float_bytes=2) == 128 + 2 * 2 * 2
    assert layer_format(((3, KVFormat(bits=4, group_size=32)),), 2) is None
