"""The text of `--version`: mlxctl, Python, and the packages that affect generation.

Imports none of them.
"""

import platform

from mlxctl import __version__
from mlxctl.state.installed import version_of

_REQUIRED = ("mlx", "mlx-lm", "tokenizers", "transformers")
# Printed only if installed.
_OPTIONAL = ("mlx-metal", "mlx-cpu", "llguidance", "mlx-vlm", "mlx-embeddings", "mlx-audio")


def describe_versions() -> str:
    """Return two lines: mlxctl and Python, then the MLX packages."""
    required = [f"{package} {version_of(package) or 'missing'}" for package in _REQUIRED]
    optional = [f"{package} {found}" for package in _OPTIONAL if (found := version_of(package))]
    return f"mlxctl {__version__} (Python {platform.python_version()})\n{', '.join(required + optional)}"
