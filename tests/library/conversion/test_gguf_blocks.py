"""Blocks of GGUF: the weights that `gguf` and MLX read."""

import mlx.core as mx
import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType
from gguf.quants import dequantize

from mlxctl.library.conversion.gguf_blocks import (
    AFFINE_BITS,
    as_stored,
    float_bytes,
    pack,
    quantize,
    read_groups,
)

ROWS, BLOCKS = 8, 4


def random_rows(kind: str) -> np.ndarray:
    """Random blocks whose scales are finite."""
    dice = np.random.default_rng(len(kind))
    num_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[kind]][1]
    blocks = dice.integers(0, 256, (ROWS, BLOCKS, num_bytes), dtype=np.uint8)
    num_scales = 2 if kind.endswith(("_1", "_K")) else 1
    halves = dice.normal(0, 0.01, (ROWS, BLOCKS, num_scales)).astype("<f2")
    blocks[..., : 2 * num_scales] = halves.view(np.uint8)
    return blocks.reshape(ROWS, -1)


@pytest.mark.parametrize("kind", AFFINE_BITS)
def test_groups_have_the_values_of_the_blocks(kind: str) -> None:
    rows, bits = random_rows(kind), AFFINE_BITS[kind]
    groups, expected = read_groups(rows, kind), dequantize(rows, GGMLQuantizationType[kind])
    in_mlx = mx.dequantize(
        mx.array(pack(groups.codes, bits)),
        mx.array(groups.scales),
        mx.array(groups.biases),
        group_size=32,
        bits=bits,
    )
    assert np.array_equal(np.array(in_mlx), expected)
    error = np.abs(groups.rounded("F16").values() - expected).max() / np.abs(expected).max()
    assert error <= (1e-3 if kind.endswith("_K") else 0)


@pytest.mark.parametrize("bits", [2, 3, 4, 5, 6, 8])
@pytest.mark.parametrize("group_size", [32, 64])
def test_quantizing_is_that_of_mlx(bits: int, group_size: int) -> None:
    values = np.random.default_rng(1).normal(0, 0.02, (16, 128)).astype(np.float32)
    values[3] = 0
    ours = quantize(values, bits=bits, group_size=group_size, dtype="F32")
    codes, scales, biases = mx.quantize(mx.array(values), group_size=group_size, bits=bits)
    assert np.allclose(ours.scales, np.array(scales), rtol=1e-6)
    assert np.allclose(ours.biases, np.array(biases), rtol=1e-6)
    assert np.mean(pack(ours.codes, bits) == np.array(codes)) > 0.99


def test_brain_floats_are_rounded_as_by_mlx() -> None:
    values = np.random.default_rng(2).normal(0, 1, 1000).astype(np.float32)
    expected = mx.array(values).astype(mx.bfloat16)
    assert np.array_equal(as_stored(values, "BF16"), np.array(expected.astype(mx.float32)))
    assert float_bytes(values, "BF16") == np.array(expected.view(mx.uint16)).tobytes()
