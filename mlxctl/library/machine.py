"""Memory and memory bandwidth of this machine."""

import os
import platform
import subprocess
import sys
from dataclasses import dataclass

from mlxctl.library.apple_chips import find_chip
from mlxctl.state import locations
from mlxctl.state.installed import version_of

GIB = 1024**3
# Off Apple Silicon the engine uses this share of the memory by default.
_SHARE_ELSEWHERE = 0.85
# Metal's default recommendation. macOS 15 gave two thirds of a small memory and three quarters of a large
# one; later versions give more (about 0.74 of 16 GiB, 0.84 of 128 GiB), so these are lower bounds.
_SMALL_MEMORY_BYTES = 36 * GIB
_SMALL_SHARE, _LARGE_SHARE = 2 / 3, 3 / 4
# MLX must not be imported in this process, but only it knows Metal's recommendation.
_ASK_METAL = "import mlx.core as mx; print(int(mx.device_info().get('max_recommended_working_set_size', 0)))"
_ASK_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """A machine's memory for models, in bytes.

    `usable_bytes` is the limit for weights and caches together; `is_exact`: measured on this machine, not
    assumed. `bandwidth_bytes_per_second` is the chip's published one, None if unknown. `computes_on_cpu`: MLX
    has no GPU here.
    """

    chip: str | None
    memory_bytes: int
    usable_bytes: int
    is_exact: bool
    has_metal: bool
    bandwidth_bytes_per_second: float | None
    computes_on_cpu: bool = False

    @property
    def gigabytes_per_second(self) -> float | None:
        """The memory bandwidth; None if unknown."""
        bandwidth = self.bandwidth_bytes_per_second
        return None if bandwidth is None else bandwidth / 1e9

    @property
    def label(self) -> str:
        """Chip and memory, by which measured speeds are stored."""
        chip = self.chip or f"{platform.machine()}, {os.cpu_count()} cores"
        return f"{chip}, {self.memory_bytes / GIB:.0f} GiB"


def recommended_share(memory_bytes: int) -> float:
    """Return the share of a Mac's memory that the GPU can use."""
    return _SMALL_SHARE if memory_bytes <= _SMALL_MEMORY_BYTES else _LARGE_SHARE


def this_machine(*, memory_limit_bytes: int | None = None) -> Machine:
    """Return memory and bandwidth of this machine.

    A memory limit of the settings applies as in the engine. May take up to some 100 ms on a Mac.
    """
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    if not locations.is_apple_silicon():
        usable = memory_limit_bytes or int(memory * _SHARE_ELSEWHERE)
        return Machine(
            chip=None,
            memory_bytes=memory,
            usable_bytes=usable,
            is_exact=True,
            has_metal=False,
            bandwidth_bytes_per_second=None,
            computes_on_cpu=version_of("mlx-cpu") is not None,
        )
    brand = _answer(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])
    chip = find_chip(brand, memory)
    limit = memory_limit_bytes or ask_metal()
    return Machine(
        chip=brand or None,
        memory_bytes=memory,
        usable_bytes=limit or int(memory * recommended_share(memory)),
        is_exact=bool(limit),
        has_metal=True,
        bandwidth_bytes_per_second=chip.bandwidth_gb_per_second * 1e9 if chip else None,
    )


def ask_metal() -> int:
    """Return Metal's recommended working set in bytes, from a child process.

    0 when unknown.
    """
    answer = _answer([sys.executable, "-c", _ASK_METAL])
    return int(answer) if answer.isdigit() else 0


def _answer(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
