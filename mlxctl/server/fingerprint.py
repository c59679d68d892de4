"""OpenAI's `system_fingerprint`: while it stays the same, the same seed gives the same tokens."""

import hashlib
from functools import cache

from mlxctl import __version__
from mlxctl.installed import version_of

# What computes tokens: our own sampling and batching, the arithmetic, and the models. mlx-vlm comes with an
# extra.
_PACKAGES = ("mlx", "mlx-lm", "mlx-vlm")


@cache
def system_fingerprint() -> str:
    """Return a short text that changes with the versions of what computes tokens."""
    versions = " ".join((__version__, *(version_of(package) or "-" for package in _PACKAGES)))
    return f"fp_{hashlib.sha256(versions.encode()).hexdigest()[:12]}"
