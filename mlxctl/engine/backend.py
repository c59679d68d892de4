"""Differences between MLX's backends: CPU on Linux, Metal, CUDA.

Every constant that holds for one backend only is here. Values for the CPU were measured. Nothing was measured
on Metal or CUDA yet: their values follow from how the device works, and are marked.
"""

import contextlib
import ctypes
import os
import sys
from dataclasses import dataclass
from math import inf
from typing import Any, Literal

_MIB = 1 << 20
_OPENBLAS_NAMES = ("libopenblas.so.0", "libopenblas.so")


@dataclass(frozen=True, slots=True, kw_only=True)
class Backend:
    """Constants of a backend.

    `starts_decode_late`: a decode step starts only after the tokens of the step before were sent.
    `draws_on_host`: the host chooses tokens from the logits; only with `starts_decode_late`.
    `new_memory_bytes_per_second` is how fast memory is written for the first time. Freed buffers that MLX
    keeps for reuse take up to `buffer_cache_share` of the memory limit, and at most `buffer_cache_max_bytes`.
    `max_buffers` is how many buffers a process may have, where the device names no limit.
    """

    name: Literal["cpu", "metal", "cuda"]
    starts_decode_late: bool
    draws_on_host: bool
    new_memory_bytes_per_second: float
    buffer_cache_share: float
    buffer_cache_max_bytes: int
    max_buffers: int = 499_000

    def buffer_cache_bytes(self, limit_bytes: int) -> int:
        """Return the limit of MLX's buffer cache, in bytes.

        `limit_bytes` is the memory limit, of which they take at most a sixteenth.
        """
        wanted = max(int(limit_bytes * self.buffer_cache_share), 64 * _MIB)
        return min(wanted, self.buffer_cache_max_bytes, limit_bytes // 16)


CPU = Backend(
    name="cpu",
    # Measured on 2 cores (x86, Linux VM): starting a step blocks until it is nearly done, so sending the
    # tokens first delivers them a step earlier.
    starts_decode_late=True,
    # Measured on the same machine, 150,000 logits: NumPy takes 0.06 ms for exponentials, 0.3 for a sort, 0.01
    # for the largest; MLX takes 1.6, 12 and 0.15.
    draws_on_host=True,
    # Measured on the same machine, where the hypervisor maps pages on first use. Elsewhere it is faster, and
    # caches only grow a little later than they could.
    new_memory_bytes_per_second=150e6,
    # Measured on the same machine: malloc is quick, and every pass over a long prompt leaves buffers of sizes
    # that fit no later one; 6,000 tokens left 700 MB and were computed no sooner.
    buffer_cache_share=0.0,
    buffer_cache_max_bytes=64 * _MIB,
)
METAL = Backend(
    name="metal",
    # Not measured: starting a step returns at once, and the device must not wait for the host.
    starts_decode_late=False,
    # Not measured: the device must not wait for the host, and is fast at what the draw computes.
    draws_on_host=False,
    # Not measured: the copy waits for the new memory on the device, and the host need not estimate when.
    new_memory_bytes_per_second=inf,
    # Not measured: enough for a step's scratch memory, less than a second model.
    buffer_cache_share=0.05,
    buffer_cache_max_bytes=2048 * _MIB,
)
CUDA = Backend(
    name="cuda",
    # Not measured, for the same reasons as on Metal.
    starts_decode_late=False,
    draws_on_host=False,
    new_memory_bytes_per_second=inf,
    buffer_cache_share=0.05,
    buffer_cache_max_bytes=2048 * _MIB,
)


def current_backend() -> Backend:
    """Return the backend of MLX's default device. MLX thread only."""
    import mlx.core as mx

    if mx.default_device() == mx.Device(mx.cpu):
        return CPU
    return METAL if mx.metal.is_available() else CUDA


def describe_device() -> str:
    """Return the name of the device that MLX computes on.

    MLX thread only.
    """
    import mlx.core as mx

    info: dict[str, Any] = mx.device_info()
    return str(info.get("device_name") or info.get("architecture") or mx.default_device())


def prefer_openblas() -> str:
    """Put OpenBLAS in front of MLX's bundled BLAS on Linux.

    Returns the name of the BLAS in use. It works because libmlx imports plain `cblas_*` symbols, so the first
    library in the global scope wins. Must run before `mlx.core` is imported. Elsewhere MLX uses the system's
    BLAS and nothing is done.
    """
    if not sys.platform.startswith("linux"):
        return "native"
    # Measured on 2 cores: the matrices of a decode step are too small for a second thread, and the front
    # needs the other core.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", str(max(1, (os.cpu_count() or 2) // 2)))
    for name in _OPENBLAS_NAMES:
        with contextlib.suppress(OSError):
            ctypes.CDLL(name, mode=ctypes.RTLD_GLOBAL)
            return "openblas"
    return "bundled"
