"""Weights in the blocks of GGUF, as MLX stores them.

As floats, or as codes with scales and biases. MLX's affine quantization has a weight `scale * code + bias`,
with a scale and a bias for each group of a row. Codes lie in a row as one little-endian stream of bits.
Layouts of the blocks: ggml-common.h and ggml-quants.c of the ggml repository.
"""

from typing import Any, Final, NamedTuple

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float32]]
Bytes = np.ndarray[Any, np.dtype[np.uint8]]
Words = np.ndarray[Any, np.dtype[np.uint32]]
_Halves = np.ndarray[Any, np.dtype[np.uint16]]

GROUP_SIZE = 32
FLOAT_TYPES: Final = ("F32", "F16", "BF16")
# The bits of types whose groups of 32 weights have one scale and one bias.
AFFINE_BITS: Final = {"Q4_0": 4, "Q4_1": 4, "Q5_0": 5, "Q5_1": 5, "Q8_0": 8, "Q4_K": 4, "Q5_K": 5}
# Others have scales for 16 weights, or levels that are not equidistant. Measured on SmolLM2-135M, errors of
# the file and of the imported weights (RMS, relative): Q2_K 0.307 and 0.316, Q3_K 0.155 and 0.160, IQ4_XS
# 0.077 and 0.086, Q6_K 0.0181 and 0.0187.
REQUANTIZED_BITS: Final = {"Q2_K": 4, "Q3_K": 5, "IQ4_NL": 5, "IQ4_XS": 5, "Q6_K": 8}

_HALF = np.dtype("<f2")
# MLX's own limit: a group of equal weights has this scale.
_LEAST_SCALE = 1e-7


class Groups(NamedTuple):
    """Quantized rows.

    Codes are uint8, one a weight; scales and biases are float32, one a group.
    """

    codes: Bytes
    scales: Floats
    biases: Floats

    def rounded(self, dtype: str) -> "Groups":
        """Return the groups with scales and biases as `dtype` stores them."""
        return self._replace(scales=as_stored(self.scales, dtype), biases=as_stored(self.biases, dtype))

    def values(self) -> Floats:
        """Return the weights in float32."""
        shape = (*self.scales.shape, -1)
        codes: Floats = self.codes.reshape(shape).astype(np.float32)
        values: Floats = (codes * self.scales[..., None] + self.biases[..., None]).reshape(self.codes.shape)
        return values


def read_floats(rows: Bytes, type_name: str) -> Floats:
    """Return the weights of rows of bytes in float32."""
    if type_name in AFFINE_BITS:
        return read_groups(rows, type_name).values()
    # The package imports parts that are slow to import.
    from gguf.constants import GGMLQuantizationType
    from gguf.quants import dequantize

    values: Floats = dequantize(rows, GGMLQuantizationType[type_name])
    return values


def read_groups(rows: Bytes, type_name: str) -> Groups:
    """Return the groups of rows of bytes, without rounding.

    The type is one of AFFINE_BITS.
    """
    return _READERS[type_name](rows)


def quantize(values: Floats, *, bits: int, group_size: int, dtype: str) -> Groups:
    """Quantize rows as `mx.quantize` does.

    Codes are those for scales and biases as `dtype` stores them.
    """
    groups = values.reshape(values.shape[0], -1, group_size)
    least, most = groups.min(-1), groups.max(-1)
    num_steps = (1 << bits) - 1
    is_low = np.abs(least) > np.abs(most)
    scales = np.maximum((most - least) / num_steps, _LEAST_SCALE) * np.where(is_low, 1, -1)
    edges = np.where(is_low, least, most)
    steps = np.rint(edges / scales)
    # Zero is one of the levels, and so is the weight that is furthest from it.
    scales = np.where(steps != 0, edges / np.where(steps != 0, steps, 1), scales)
    biases = np.where(steps != 0, edges, 0)
    scales, biases = as_stored(scales, dtype), as_stored(biases, dtype)
    codes = np.rint((groups - biases[..., None]) / scales[..., None])
    codes = np.nan_to_num(np.clip(codes, 0, num_steps)).astype(np.uint8)
    return Groups(codes.reshape(values.shape), scales, biases)


def pack(codes: Bytes, bits: int) -> Words:
    """Return codes as MLX's words of 32 bits."""
    rows = codes.shape[0]
    if bits == 8:
        stream = np.ascontiguousarray(codes)
    elif bits == 4:
        stream = codes[:, 0::2] | codes[:, 1::2] << 4
    else:
        single = np.unpackbits(codes.reshape(rows, -1, 1), axis=-1, count=bits, bitorder="little")
        stream = np.packbits(single.reshape(rows, -1), axis=-1, bitorder="little")
    words: Words = stream.view("<u4")
    return words


def as_stored(values: Floats, dtype: str) -> Floats:
    """Return values in float32 as `dtype` rounds them."""
    values = values.astype(np.float32, copy=False)
    if dtype == "F16":
        values = values.astype(np.float16).astype(np.float32)
    elif dtype == "BF16":
        values = (_brain_floats(values).astype(np.uint32) << 16).view(np.float32)
    return values


def float_bytes(values: Floats, dtype: str) -> bytes:
    """Return values as the bytes of a float type."""
    if dtype == "F16":
        return values.astype(_HALF).tobytes()
    if dtype == "BF16":
        return _brain_floats(values).astype("<u2").tobytes()
    return values.astype("<f4").tobytes()


def _brain_floats(values: Floats) -> _Halves:
    """Return bfloat16: the upper half of float32, rounded to even."""
    bits = np.ascontiguousarray(values, dtype=np.float32).view(np.uint32)
    rounded = (bits + 0x7FFF + (bits >> 16 & 1)) >> 16
    halves: _Halves = np.where(np.isnan(values), 0x7FC0, rounded).astype(np.uint16)
    return halves


def _halves(blocks: Bytes, start: int) -> Floats:
    """Return the float16 at a byte of each block."""
    found: Floats = blocks[..., start : start + 2].copy().view(_HALF)[..., 0].astype(np.float32)
    return found


def _nibbles(packed: Bytes) -> Bytes:
    """Return the low halves of bytes, then the high halves."""
    halves: Bytes = np.concatenate([packed & 15, packed >> 4], axis=-1)
    return halves


def _fifth_bits(blocks: Bytes, start: int) -> Bytes:
    """Return the fifth bit of 32 codes in place."""
    bits: Bytes = np.unpackbits(blocks[..., start : start + 4], axis=-1, bitorder="little") << 4
    return bits


def _groups(codes: Bytes, scales: Floats, biases: Floats) -> Groups:
    rows = codes.shape[0]
    return Groups(codes.reshape(rows, -1), scales.reshape(rows, -1), biases.reshape(rows, -1))


def _blocks(rows: Bytes, num_bytes: int) -> Bytes:
    return rows.reshape(rows.shape[0], -1, num_bytes)


def _q4_0(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 18)
    scales = _halves(blocks, 0)
    return _groups(_nibbles(blocks[..., 2:]), scales, scales * -8)


def _q4_1(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 20)
    return _groups(_nibbles(blocks[..., 4:]), _halves(blocks, 0), _halves(blocks, 2))


def _q5_0(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 22)
    scales = _halves(blocks, 0)
    return _groups(_nibbles(blocks[..., 6:]) | _fifth_bits(blocks, 2), scales, scales * -16)


def _q5_1(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 24)
    codes = _nibbles(blocks[..., 8:]) | _fifth_bits(blocks, 4)
    return _groups(codes, _halves(blocks, 0), _halves(blocks, 2))


def _q8_0(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 34)
    scales = _halves(blocks, 0)
    # Signed bytes; adding 128 flips the upper bit.
    return _groups(blocks[..., 2:] ^ 128, scales, scales * -128)


def _q4_k(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 144)
    scales, biases = _super_block(blocks)
    return _groups(_nibbles(blocks[..., 16:].reshape(*blocks.shape[:2], 4, 32)), scales, biases)


def _q5_k(rows: Bytes) -> Groups:
    blocks = _blocks(rows, 176)
    scales, biases = _super_block(blocks)
    codes = _nibbles(blocks[..., 48:].reshape(*blocks.shape[:2], 4, 32)).reshape(*blocks.shape[:2], 8, 32)
    fifth = blocks[..., None, 16:48] >> np.arange(8, dtype=np.uint8)[:, None] & 1
    return _groups(codes | fifth << 4, scales, biases)


def _super_block(blocks: Bytes) -> tuple[Floats, Floats]:
    """Return scales and biases of eight groups.

    They are products of 6-bit numbers and a float16. Four numbers of each kind have their six bits in a
    byte; the other four have four bits in a byte, and two in the upper ones of those bytes.
    """
    first, second, rest = blocks[..., 4:8], blocks[..., 8:12], blocks[..., 12:16]
    scales = np.concatenate([first & 63, rest & 15 | first >> 6 << 4], axis=-1)
    biases = np.concatenate([second & 63, rest >> 4 | second >> 6 << 4], axis=-1)
    return _halves(blocks, 0)[..., None] * scales, _halves(blocks, 2)[..., None] * biases * -1


_READERS: Final = {
    "Q4_0": _q4_0,
    "Q4_1": _q4_1,
    "Q5_0": _q5_0,
    "Q5_1": _q5_1,
    "Q8_0": _q8_0,
    "Q4_K": _q4_k,
    "Q5_K": _q5_k,
}
