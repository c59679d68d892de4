"""Paths of files and directories. Directories are created owner-only."""

import os
import sys
import tempfile
from pathlib import Path

from mlxctl.errors import SettingsError

# The path of a Unix socket may have 104 bytes on macOS and 108 on Linux; the rest is for its name.
_MAX_SOCKET_ROOT_BYTES = 60


def runtime_directory() -> Path:
    """Return the directory for sockets (mode 0700), created on demand.

    The first of $XDG_RUNTIME_DIR, the temporary directory and /tmp whose path is short enough for a socket.
    """
    bases = (os.environ.get("XDG_RUNTIME_DIR"), tempfile.gettempdir())
    short = (base for base in bases if base and len(os.fsencode(base)) <= _MAX_SOCKET_ROOT_BYTES)
    root = next((Path(base) for base in short if Path(base).is_dir()), Path("/tmp"))  # noqa: S108 -- owner-only below
    directory = root / f"mlxctl-{os.getuid()}"
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    # SEC: in a shared temporary directory another user may have created this name first.
    if status.st_uid != os.getuid() or not directory.is_dir() or directory.is_symlink():
        raise PermissionError(f"runtime directory {str(directory)!r} belongs to another user")
    directory.chmod(0o700)
    return directory


def home_directory() -> Path:
    """Return the user's home directory. Raises SettingsError where it is unknown."""
    try:
        return Path.home()
    except RuntimeError:
        raise SettingsError("the home directory is unknown: set the environment variable HOME") from None


def expand_user(path: str | Path) -> Path:
    """Return the path with `~` replaced, if there is such a user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def config_file() -> Path:
    """Return the path of `mlxctl.toml`; it need not exist."""
    base = os.environ.get("XDG_CONFIG_HOME")
    root = Path(base) if base else home_directory() / ".config"
    return root / "mlxctl" / "mlxctl.toml"


def capability_overrides_file() -> Path:
    """Return the path of `capabilities.toml`; it need not exist.

    In this file the user overrides what probing found out about models.
    """
    return config_file().with_name("capabilities.toml")


def state_directory() -> Path:
    """Return the directory for persistent state; it need not exist."""
    base = os.environ.get("XDG_STATE_HOME")
    root = Path(base) if base else home_directory() / ".local" / "state"
    return root / "mlxctl"


def service_log_file() -> Path:
    """Return the path of the service's log; it need not exist."""
    return state_directory() / "service.log"


def launched_log_file() -> Path:
    """Return the path of the log of a server that was launched.

    `mlxctl launch` starts it. The file need not exist.
    """
    return state_directory() / "serve.log"


def launched_pid_file() -> Path:
    """Return the path of a launched server's process id.

    The file need not exist.
    """
    return state_directory() / "serve.pid"


def older_log_file(log_file: Path) -> Path:
    """Return the path of a log's older lines; it need not exist."""
    return log_file.with_name(f"{log_file.name}.1")


def agents_file() -> Path:
    """Return the path of the agents' SQLite file; it need not exist."""
    return state_directory() / "agents.sqlite"


def speeds_file() -> Path:
    """Return the path of the measured speeds.

    It need not exist.
    """
    return state_directory() / "speeds.sqlite"


def downloads_directory() -> Path:
    """Return the directory of the running downloads' states; it need not exist."""
    return state_directory() / "downloads"


def policy_file() -> Path:
    """Return the default path of the policy store; it need not exist."""
    return state_directory() / "policy.sqlite"


def audit_directory() -> Path:
    """Return the default directory of the audit log; it need not exist."""
    return state_directory() / "audit"


def audit_key_file() -> Path:
    """Return the path of the audit log's hash key.

    It need not exist.
    """
    return state_directory() / "audit.key"


def cache_directory() -> Path:
    """Return the directory for recomputable data; it need not exist."""
    base = os.environ.get("XDG_CACHE_HOME")
    if base:
        return Path(base) / "mlxctl"
    return (
        home_directory() / "Library" / "Caches" if sys.platform == "darwin" else home_directory() / ".cache"
    ) / "mlxctl"


def is_translated() -> bool:
    """Return whether this Python runs under Rosetta, where Metal is unavailable."""
    return sys.platform == "darwin" and os.uname().machine == "x86_64" and "ARM64" in os.uname().version


def is_apple_silicon() -> bool:
    """Return whether this is a Mac with Apple silicon."""
    return sys.platform == "darwin" and os.uname().machine == "arm64"
