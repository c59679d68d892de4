"""Where things lie on this machine. Knows paths only; creates a directory when asked for one, owner-only."""

import os
import sys
import tempfile
from pathlib import Path


def runtime_directory() -> Path:
    """Return a directory for sockets that end with the process (mode 0700), made on demand."""
    base = os.environ.get("XDG_RUNTIME_DIR")
    root = Path(base) if base and Path(base).is_dir() else Path(tempfile.gettempdir())
    directory = root / f"mlxctl-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    # SEC: in a shared temp directory someone else may have made the name first.
    if status.st_uid != os.getuid() or not directory.is_dir() or directory.is_symlink():
        raise PermissionError(f"runtime directory {str(directory)!r} belongs to somebody else")
    directory.chmod(0o700)
    return directory


def config_file() -> Path:
    """Return the path of the settings file that a person edits (`mlxctl.toml`); it need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME")
    root = Path(base) if base else Path.home() / ".config"
    return root / "mlxctl" / "mlxctl.toml"


def capability_overrides_file() -> Path:
    """Return the path of the file in which a person lays down what models can do (`capabilities.toml`); it
    need not exist.
    """
    return config_file().with_name("capabilities.toml")


def state_directory() -> Path:
    """Return the directory for what is remembered from one run to the next; it need not exist."""
    base = os.environ.get("XDG_STATE_HOME")
    root = Path(base) if base else Path.home() / ".local" / "state"
    return root / "mlxctl"


def agents_file() -> Path:
    """Return the path of the SQLite file with the agents of every server here; it need not exist."""
    return state_directory() / "agents.sqlite"


def cache_directory() -> Path:
    """Return the directory for what can be computed again; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "mlxctl"
    return (
        Path.home() / "Library" / "Caches" if sys.platform == "darwin" else Path.home() / ".cache"
    ) / "mlxctl"


def is_translated() -> bool:
    """Return whether this process is made for Intel and runs translated on Apple silicon, where Metal cannot
    be used.
    """
    return sys.platform == "darwin" and os.uname().machine == "x86_64" and "ARM64" in os.uname().version


def is_apple_silicon() -> bool:
    """Return whether Metal can be expected here."""
    return sys.platform == "darwin" and os.uname().machine == "arm64"
