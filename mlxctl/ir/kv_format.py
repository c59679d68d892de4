"""The quantization of a model's KV cache. Pure value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KVFormat:
    """Bits per number, and the group size of scales and biases.

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
