"""What OpenAI calls a system fingerprint: as long as it is the same, the same seed gives the same tokens."""

import hashlib
from functools import cache

from mlxctl import __version__

# What computes tokens: our own sampling and batching, the arithmetic, and the models.
_PACKAGES = ("mlx", "mlx-lm", "mlx-vlm")


@cache
def system_fingerprint() -> str:
    """Return a short text that changes with the versions of what computes tokens."""
    # PERF: answers need it; a server that starts does not.
    from importlib.metadata import version

    versions = " ".join((__version__, *map(version, _PACKAGES)))
    return f"fp_{hashlib.sha256(versions.encode()).hexdigest()[:12]}"
