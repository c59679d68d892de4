"""Lock of a directory for one process.

The system releases it when the process dies.
"""

import fcntl
import os
import time
from pathlib import Path

from mlxctl.ir.errors import StoreError

# Longest wait for a process that announced its release: it still writes what is in memory.
_MAX_ENDING_SECONDS = 10.0
# Longest wait for another owner: one that was just killed, or a short CLI command.
_MAX_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 0.05
_ENDING = b" ending"


class DirectoryLock:
    """Exclusive file lock of a directory.

    The file holds the owner's process id, and whether it is about to release the lock.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def acquire(cls, directory: Path) -> "DirectoryLock":
        """Return the lock, perhaps after a short wait.

        An owner that is about to release it is waited for. Raises StoreError that names the owner, and
        OSError.
        """
        file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _wait_for_lock(file, directory)
            lock = cls(file)
            lock._write_holder(b"%d" % os.getpid())
        except BaseException:
            os.close(file)
            raise
        return lock

    def announce_release(self) -> None:
        """Tell waiting processes that the lock will be released soon."""
        self._write_holder(b"%d%s" % (os.getpid(), _ENDING))

    def release(self) -> None:
        os.close(self._file)

    def _write_holder(self, text: bytes) -> None:
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text, 0)
        except OSError:
            # On a full disk the file names no owner; the lock itself still holds.
            pass


def _wait_for_lock(file: int, directory: Path) -> None:
    started = time.monotonic()
    while not _try_lock(file):
        holder = os.pread(file, 64, 0)
        max_wait = _MAX_ENDING_SECONDS if holder.endswith(_ENDING) else _MAX_WAIT_SECONDS
        if time.monotonic() - started > max_wait:
            raise StoreError(
                f"{str(directory)!r} is used by another mlxctl, {_name(holder)}; "
                "stop it, or choose another directory: `serve --cache-dir`, `cache --dir`"
            )
        time.sleep(_RETRY_SECONDS)


def _try_lock(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _name(holder: bytes) -> str:
    pid = holder.removesuffix(_ENDING)
    return f"process {int(pid)}" if pid.isdigit() else "whose process is not known"
