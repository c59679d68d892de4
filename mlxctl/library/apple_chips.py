"""Apple's chips for the Mac: published memory bandwidth and memory sizes.

Source: Apple's technical specifications. Chips sold with different bandwidths have a row for each, by the
number of GPU cores. Bandwidth is in decimal gigabytes per second, memory in GiB. A chip that is not in
the table is not guessed.
"""

from typing import NamedTuple


class Chip(NamedTuple):
    """A chip; `num_gpu_cores` is set where bandwidths of one name differ."""

    name: str
    bandwidth_gb_per_second: float
    memory_gib: tuple[int, ...]
    num_gpu_cores: int | None = None


CHIPS = (
    Chip("M1", 68.25, (8, 16)),
    Chip("M1 Pro", 200, (16, 32)),
    Chip("M1 Max", 400, (32, 64)),
    Chip("M1 Ultra", 800, (64, 128)),
    Chip("M2", 100, (8, 16, 24)),
    Chip("M2 Pro", 200, (16, 32)),
    Chip("M2 Max", 400, (32, 64, 96)),
    Chip("M2 Ultra", 800, (64, 128, 192)),
    Chip("M3", 100, (8, 16, 24)),
    Chip("M3 Pro", 150, (18, 36)),
    Chip("M3 Max", 300, (36, 96), 30),
    Chip("M3 Max", 400, (48, 64, 128), 40),
    Chip("M3 Ultra", 819, (96, 256, 512)),
    Chip("M4", 120, (16, 24, 32)),
    Chip("M4 Pro", 273, (24, 48, 64)),
    Chip("M4 Max", 410, (36,), 32),
    Chip("M4 Max", 546, (48, 64, 128), 40),
    Chip("M5", 153, (16, 24, 32)),
    Chip("M5 Pro", 307, (24, 48, 64)),
    Chip("M5 Max", 460, (36,), 32),
    Chip("M5 Max", 614, (48, 64, 128), 40),
)


def find_chip(brand: str, memory_bytes: int) -> Chip | None:
    """Return the chip that macOS calls `brand` ("Apple M4 Max"), or None.

    Chips of one name differ by the memory of the Mac; where that is ambiguous, the slower one is returned.
    """
    named = [chip for chip in CHIPS if f"Apple {chip.name}" == brand]
    sold = [chip for chip in named if memory_bytes // 1024**3 in chip.memory_gib]
    return min(sold or named, key=lambda chip: chip.bandwidth_gb_per_second, default=None)
