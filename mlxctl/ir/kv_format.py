"""How a model's keys and values are quantized while it runs. Pure value."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class KVFormat:
    """`bits` for each number, and a scale and a bias, in the model's own precision, for each `group_size`
    numbers of a head.
    """

    bits: int
    group_size: int

    def num_bytes(self, num_float_bytes: int, *, float_bytes: int) -> int:
        """Return what takes `num_float_bytes` in floats of `float_bytes` each takes in this format."""
        numbers = num_float_bytes // float_bytes
        return numbers * self.bits // 8 + 2 * float_bytes * numbers // self.group_size
