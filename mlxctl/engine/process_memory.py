"""The memory of this process, as the system counts it.

Linux and macOS.
"""

import ctypes
import functools
import os
import struct
import sys
from pathlib import Path
from typing import Any

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
