"""Memory of this process and its machine, on Linux and macOS."""

import ctypes
import functools
import math
import os
import struct
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

# What the process may take beside MLX's arrays: interpreter, grammars, scratch memory of matrix products.
_ALLOWANCE_BYTES = 256 * 1024 * 1024
# Maximum age of a measured figure.
_MEASURE_EVERY_SECONDS = 0.5
# Memory of the machine that is left to others.
_MACHINE_RESERVE_BYTES = 256 * 1024 * 1024
_PLENTY_BYTES = 1 << 60

_RUSAGE_INFO_V2 = 2
# Of `struct rusage_info_v2`: a uuid of 16 bytes, seven counters of 8 bytes, then `ri_phys_footprint`.
_RUSAGE_INFO_BYTES = 256
_FOOTPRINT_OFFSET = 72


def resident_bytes() -> int | None:
    """Return the memory of the process in bytes.

    None where it is unknown. The resident set on Linux, the footprint on macOS, which counts Metal's buffers.
    """
    if sys.platform == "darwin":
        return _footprint_bytes()
    try:
        return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError):
        return None


class ProcessOverhead:
    """Memory of the process that MLX does not count, beyond an allowance.

    Memory that the process had at its start does not count either. `measure` returns the resident bytes, None
    where they are unknown; `clock` returns seconds.
    """

    def __init__(
        self,
        *,
        measure: Callable[[], int | None] = resident_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._at_start = measure() or 0
        self._measured_at = clock()
        self._num_bytes = 0

    def num_bytes(self, mlx_bytes: int) -> int:
        """Return the bytes over the allowance; `mlx_bytes` are those that MLX counts.

        Unused memory of the allocator is returned to the system before it is counted.
        """
        if self._clock() - self._measured_at >= _MEASURE_EVERY_SECONDS:
            if self._excess(mlx_bytes) > 0:
                return_free_memory()
            self._num_bytes = self._excess(mlx_bytes)
            self._measured_at = self._clock()
        return self._num_bytes

    def _excess(self, mlx_bytes: int) -> int:
        resident = self._measure()
        return 0 if resident is None else max(0, resident - mlx_bytes - self._at_start - _ALLOWANCE_BYTES)


def available_bytes() -> int | None:
    """Return the bytes that programs of the machine can still take.

    None where it is unknown. Files in memory that can be read again count as available.
    """
    if sys.platform == "darwin":
        percent, size = ctypes.c_int(), ctypes.c_size_t(ctypes.sizeof(ctypes.c_int))
        if _libc().sysctlbyname(
            b"kern.memorystatus_level", ctypes.byref(percent), ctypes.byref(size), None, 0
        ):
            return None
        return os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") * percent.value // 100
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None


class MachineMemory:
    """Memory that the machine has left, measured twice a second.

    `measure` returns the available bytes, None where they are unknown; `clock` returns seconds.
    """

    def __init__(
        self,
        *,
        measure: Callable[[], int | None] = available_bytes,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._measure = measure
        self._clock = clock
        self._measured_at = -math.inf
        self._num_bytes = 0

    def num_bytes(self) -> int:
        """Return the bytes left before the machine has to swap."""
        if self._clock() - self._measured_at >= _MEASURE_EVERY_SECONDS:
            measured = self._measure()
            self._num_bytes = _PLENTY_BYTES if measured is None else measured - _MACHINE_RESERVE_BYTES
            self._measured_at = self._clock()
        return self._num_bytes

    def note_freed(self, num_bytes: int) -> None:
        """Count bytes that were freed since the last measurement."""
        self._num_bytes += num_bytes


def return_free_memory() -> None:
    """Return memory that the allocator holds unused to the system.

    Takes some milliseconds.
    """
    libc = _libc()
    if hasattr(libc, "malloc_trim"):
        libc.malloc_trim(0)
    elif hasattr(libc, "malloc_zone_pressure_relief"):
        libc.malloc_zone_pressure_relief(None, ctypes.c_size_t(0))


def _footprint_bytes() -> int | None:
    usage = ctypes.create_string_buffer(_RUSAGE_INFO_BYTES)
    if _libc().proc_pid_rusage(os.getpid(), _RUSAGE_INFO_V2, usage) != 0:
        return None
    return int(struct.unpack_from("Q", usage.raw, _FOOTPRINT_OFFSET)[0])


@functools.cache
def _libc() -> Any:
    return ctypes.CDLL(None)
