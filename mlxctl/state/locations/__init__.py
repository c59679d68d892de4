"""Paths of files and directories. Directories are created owner-only."""

import hashlib
import os
import stat
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from mlxctl.ir.errors import SettingsError

# The path of a Unix socket may have 103 bytes on macOS and 107 on Linux; the rest is for its name.
_MAX_RUNTIME_BYTES = 74
_SHARED = "/tmp"  # noqa: S108 -- a directory in it is checked


def runtime_directory() -> Path:
    """Return the directory for sockets (mode 0700), created on demand.

    It is in the first of $XDG_RUNTIME_DIR, the temporary directory, /tmp and the state directory where it can
    be the user's own and its path is short enough for a socket. Raises SettingsError.
    """
    problems: dict[Path, str] = {}
    for directory in _runtime_candidates():
        try:
            _make_owned(directory)
        except OSError as error:
            problems[directory] = error.strerror or str(error)
        else:
            return directory
    tried = "; ".join(f"{str(directory)!r}: {problem}" for directory, problem in problems.items())
    raise SettingsError(
        "no directory for sockets can be used; set XDG_RUNTIME_DIR to a directory of yours with a short path "
        f"({tried})"
    )


def _runtime_candidates() -> Iterator[Path]:
    try:
        temporary = tempfile.gettempdir()
    except FileNotFoundError:
        temporary = None
    for base in (os.environ.get("XDG_RUNTIME_DIR"), temporary, _SHARED):
        if base:
            yield Path(base) / f"mlxctl-{os.getuid()}"
    state = state_directory()
    with suppress(OSError):
        state.mkdir(mode=0o700, parents=True, exist_ok=True)
    yield state / "run"


def _make_owned(directory: Path) -> None:
    """Create a directory with mode 0700, or check an existing one.

    Raises OSError.
    """
    if len(os.fsencode(directory)) > _MAX_RUNTIME_BYTES:
        raise OSError(f"its path has more than {_MAX_RUNTIME_BYTES} bytes")
    parent = directory.parent.stat().st_mode
    # SEC: otherwise another user can put a directory in its place at any time.
    if parent & stat.S_IWOTH and not parent & stat.S_ISVTX:
        raise OSError("other users can replace it")
    directory.mkdir(mode=0o700, exist_ok=True)
    status = directory.lstat()
    # SEC: in a shared temporary directory another user may have created this name first.
    if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.getuid():
        raise OSError("it is a link, or belongs to another user")
    directory.chmod(0o700)


def keep_others_out(directory: Path) -> str | None:
    """Take every user's right to write from a directory of this user.

    Returns a line for the operator about a directory that any user can write, or could.
    """
    try:
        status = directory.stat()
        if not status.st_mode & stat.S_IWOTH:
            return None
        if status.st_uid != os.getuid():
            return f"{str(directory)!r} can be written by every user; its owner can fix that with chmod go-w"
        directory.chmod(stat.S_IMODE(status.st_mode) & ~(stat.S_IWGRP | stat.S_IWOTH))
    except OSError:
        return None
    return f"{str(directory)!r} could be written by every user, and no longer can; check the files in it"


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


def models_directory() -> Path:
    """Return the directory of models that mlxctl made; it need not exist."""
    base = os.environ.get("XDG_DATA_HOME")
    root = Path(base) if base else home_directory() / ".local" / "share"
    return root / "mlxctl" / "models"


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


def server_cards_directory() -> Path:
    """Return the directory of the running servers' cards; it need not exist."""
    return state_directory() / "servers"


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


def bench_directory() -> Path:
    """Return the directory of results of `mlxctl bench`; it need not exist."""
    return state_directory() / "bench"


def downloads_directory() -> Path:
    """Return the directory of the running downloads' states; it need not exist."""
    return state_directory() / "downloads"


def policy_file() -> Path:
    """Return the default path of the policy store; it need not exist."""
    return state_directory() / "policy.sqlite"


def keys_marker_file(store: Path) -> Path:
    """Return the path of the marker of a policy store with keys.

    The file exists once the store had keys. It is apart from the store, whose loss must not open the server.
    """
    name = hashlib.sha256(os.fsencode(store.absolute())).hexdigest()[:16]
    return state_directory() / "key-stores" / name


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
