"""The environment of a result: machine, package versions, commit.

Package versions are read from metadata, not imported, so that the client stays light.
"""

import os
import platform
import subprocess
from pathlib import Path
from typing import Any

import mlxctl
from mlxctl import __version__
from mlxctl.library.machine import Machine
from mlxctl.state.installed import version_of

STACK = ("mlx", "mlx-lm", "granian", "falcon", "msgspec")
_GIT_SECONDS = 5.0


def describe_environment(machine: Machine) -> dict[str, Any]:
    """Return machine, versions and the load average at the start."""
    return {
        "mlxctl": __version__,
        "commit": _commit(),
        "platform": platform.platform(),
        "chip": machine.chip or platform.processor() or platform.machine(),
        "num_cores": os.cpu_count(),
        "memory_bytes": machine.memory_bytes,
        "load_average": round(os.getloadavg()[0], 2),
        "python": platform.python_version(),
        "packages": {package: version_of(package) for package in STACK},
    }


def _commit() -> str | None:
    """Return the commit of mlxctl's checkout, `+` marks changes.

    None for an installed package, which the repository around it does not track, or without git.
    """
    is_checkout = _git("ls-files", "__init__.py")
    head = _git("rev-parse", "--short", "HEAD") if is_checkout else None
    if not head:
        return None
    return f"{head}+" if _git("status", "--porcelain", "--untracked-files=no") else head


def _git(*arguments: str) -> str:
    try:
        done = subprocess.run(  # noqa: S603
            ["git", *arguments],  # noqa: S607
            cwd=Path(mlxctl.__file__).parent,
            capture_output=True,
            text=True,
            timeout=_GIT_SECONDS,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    return done.stdout.strip()
