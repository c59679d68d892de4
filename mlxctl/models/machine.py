"""What this machine offers a model: memory that the GPU may use, and how fast that memory is read."""

import os
import subprocess
import sys
from dataclasses import dataclass

from mlxctl import locations
from mlxctl.models.apple_chips import find_chip

GIB = 1024**3
# Off Apple Silicon the engine takes this share of the memory when nobody says otherwise.
_SHARE_ELSEWHERE = 0.85
# What Metal recommends unless told otherwise: macOS 15 gave two thirds of a small memory and three quarters
# of a large one; later versions give more (about 0.74 of 16 GiB, 0.84 of 128 GiB), so this is what a model
# can count on.
_SMALL_MEMORY_BYTES = 36 * GIB
_SMALL_SHARE, _LARGE_SHARE = 2 / 3, 3 / 4
# MLX must not be imported here, but it alone knows what Metal recommends on this very machine.
_ASK_METAL = "import mlx.core as mx; print(int(mx.device_info().get('max_recommended_working_set_size', 0)))"
_ASK_SECONDS = 20.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """`usable_bytes` is what weights and caches may take together; `is_exact` says that the machine itself
    said so.

    `bandwidth_bytes_per_second` is the published one of the chip, None where it is not known.
    """

    chip: str | None
    memory_bytes: int
    usable_bytes: int
    is_exact: bool
    has_metal: bool
    bandwidth_bytes_per_second: float | None


def recommended_share(memory_bytes: int) -> float:
    """Return the share of a Mac's memory that the GPU may be counted on to have."""
    return _SMALL_SHARE if memory_bytes <= _SMALL_MEMORY_BYTES else _LARGE_SHARE


def this_machine(*, memory_limit_bytes: int | None = None) -> Machine:
    """Look at this machine.

    A memory limit from the settings counts as it does for the engine. May take a moment on a Mac.
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
        )
    brand = _answer(["/usr/sbin/sysctl", "-n", "machdep.cpu.brand_string"])
    chip = find_chip(brand, memory)
    asked = memory_limit_bytes or ask_metal()
    return Machine(
        chip=brand or None,
        memory_bytes=memory,
        usable_bytes=asked or int(memory * recommended_share(memory)),
        is_exact=bool(asked),
        has_metal=True,
        bandwidth_bytes_per_second=chip.bandwidth_gb_per_second * 1e9 if chip else None,
    )


def ask_metal() -> int:
    """Return the working set that Metal recommends, asked in a process of its own; 0 when it does not say."""
    answer = _answer([sys.executable, "-c", _ASK_METAL])
    return int(answer) if answer.isdigit() else 0


def _answer(command: list[str]) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=_ASK_SECONDS, check=True)  # noqa: S603
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
