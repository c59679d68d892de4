"""Packing: quantization of stored keys and values. MLX thread only.

More tokens fit into memory, and restored tokens are no longer exact. Only stored records are packed: a
sequence computes with unpacked ones, in its own precision.
"""

from dataclasses import dataclass

import mlx.core as mx

from mlxctl.ir.cache_policy import CachePolicy
from mlxctl.prefix_cache.records import KVRecord, StateRecord

# Numbers that can share a scale in MLX.
_GROUP_SIZES = (128, 64, 32)
_DEFAULT_GROUP_SIZE = 64


@dataclass(frozen=True, slots=True, kw_only=True)
class Packing:
    """Quantization of stored numbers after the first `exact_tokens` tokens.

    `group_size` numbers share a scale; smaller groups are used for head sizes that it does not divide.
    """

    bits: int
    exact_tokens: int
    group_size: int = _DEFAULT_GROUP_SIZE

    @classmethod
    def of(cls, policy: CachePolicy) -> "Packing | None":
        """Return the packing of a policy; None if records stay exact."""
        if policy.prefix_cache_bits == "full":
            return None
        return cls(
            bits=int(policy.prefix_cache_bits),
            exact_tokens=policy.prefix_cache_exact_tokens,
            group_size=int(policy.prefix_cache_group_size),
        )

    @property
    def label(self) -> str:
        """Text for digests.

        It must stay the same for stored records.
        """
        groups = "" if self.group_size == _DEFAULT_GROUP_SIZE else f" by {self.group_size}"
        return f"{self.bits} bits{groups} after {self.exact_tokens}"

    def is_as_exact_as(self, other: "Packing | None") -> bool:
        """Whether records of this packing may be read under `other`."""
        return (
            other is not None
            and self.bits >= other.bits
            and self.exact_tokens >= other.exact_tokens
            and self.group_size <= other.group_size
        )


@dataclass(frozen=True, slots=True)
class PackedKVRecord:
    """KVRecord with arrays quantized along the last axis, as (numbers, scales, biases)."""

    layers: tuple[tuple[int, ...], ...]
    groups: tuple[tuple[tuple[mx.array, mx.array, mx.array], ...], ...]
    bits: int
    group_size: int

    @property
    def num_bytes(self) -> int:
        """Bytes on the device."""
        return sum(part.nbytes for group in self.groups for array in group for part in array)

    @property
    def num_buffers(self) -> int:
        """Buffers on the device."""
        return sum(len(array) for group in self.groups for array in group)


Record = KVRecord | PackedKVRecord | StateRecord


def pack_record(
    record: KVRecord, bits: int, *, group_size: int = _DEFAULT_GROUP_SIZE
) -> KVRecord | PackedKVRecord:
    """Return the record quantized to `bits` bits.

    Groups have at most `group_size` numbers. It is returned unchanged if its head size fits no group size, or
    if it is quantized already.
    """
    arrays = [array for group in record.groups for array in group]
    group_sizes = [
        size
        for size in _GROUP_SIZES
        if size <= group_size and all(array.shape[-1] % size == 0 for array in arrays)
    ]
    if not group_sizes or not all(mx.issubdtype(array.dtype, mx.floating) for array in arrays):
        return record
    groups = tuple(
        tuple(_quantized(array, group_sizes[0], bits) for array in group) for group in record.groups
    )
    mx.eval([part for group in groups for array in group for part in array])
    return PackedKVRecord(record.layers, groups, bits, group_sizes[0])


def unpack_record(record: Record) -> KVRecord:
    """Return the record in its original precision, not evaluated."""
    assert not isinstance(record, StateRecord), "a chunk holds keys and values"
    if isinstance(record, KVRecord):
        return record
    groups = tuple(
        tuple(mx.dequantize(*array, group_size=record.group_size, bits=record.bits) for array in group)
        for group in record.groups
    )
    return KVRecord(record.layers, groups)


def _quantized(array: mx.array, group_size: int, bits: int) -> tuple[mx.array, mx.array, mx.array]:
    numbers, scales, biases = mx.quantize(array, group_size=group_size, bits=bits)
    return numbers, scales, biases
