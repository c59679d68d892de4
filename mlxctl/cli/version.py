"""What `--version` says: ours, Python's, and those of the packages that decide what a model does. Imports none of them."""

import platform
from importlib.metadata import PackageNotFoundError, version

from mlxctl import __version__


def describe_versions() -> str:
    """Return one line."""
    others = ", ".join(f"{package} {_installed(package)}" for package in ("mlx", "mlx-lm"))
    return f"mlxctl {__version__} (Python {platform.python_version()}, {others})"


def _installed(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return "missing"
