"""One process at a time: a lock on a file, which the system lets go of when the process dies."""

import fcntl
import os
import time
from pathlib import Path

from mlxctl.errors import StoreError

# A process that ends still has to write what its memory holds, and says so in the file.
_MAX_ENDING_SECONDS = 10.0
# One that was killed a moment ago, or looks for a moment only.
_MAX_WAIT_SECONDS = 1.0
_RETRY_SECONDS = 0.05
_ENDING = b" ending"


class DirectoryLock:
    """An exclusive lock on a directory of ours.

    The file names the process that has it, and whether that is about to release it.
    """

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def acquire(cls, directory: Path) -> "DirectoryLock":
        """Return the lock, after a wait if its holder is about to release it.

        Raises StoreError that names the holder, and OSError.
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
        """Tell those who want the lock that it is worth waiting for."""
        self._write_holder(b"%d%s" % (os.getpid(), _ENDING))

    def release(self) -> None:
        """Let go of it."""
        os.close(self._file)

    def _write_holder(self, text: bytes) -> None:
        try:
            os.ftruncate(self._file, 0)
            os.pwrite(self._file, text, 0)
        except OSError:
            # A full disk: who else wants the lock is told less.
            pass


def _wait_for_lock(file: int, directory: Path) -> None:
    started = time.monotonic()
    while not _try_lock(file):
        holder = os.pread(file, 64, 0)
        most = _MAX_ENDING_SECONDS if holder.endswith(_ENDING) else _MAX_WAIT_SECONDS
        if time.monotonic() - started > most:
            raise StoreError(
                f"{str(directory)!r} is used by another mlxctl, {_name(holder)}; --cache-dir names another directory"
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
