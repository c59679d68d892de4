"""What `--version` says: ours, Python's, and those of the packages that decide what a model does.

Imports none of them.
"""

import platform

from mlxctl import __version__
from mlxctl.installed import version_of

_NEEDED = ("mlx", "mlx-lm", "tokenizers", "transformers")
# Named where they are installed: what MLX runs on, and what reads other kinds of models or forces the form of
# an answer.
_WELCOME = ("mlx-metal", "mlx-cpu", "llguidance", "mlx-vlm", "mlx-embeddings", "mlx-audio")


def describe_versions() -> str:
    """Return two lines: ourselves and Python, then the MLX stack."""
    needed = [f"{package} {version_of(package) or 'missing'}" for package in _NEEDED]
    welcome = [f"{package} {found}" for package in _WELCOME if (found := version_of(package))]
    return f"mlxctl {__version__} (Python {platform.python_version()})\n{', '.join(needed + welcome)}"
