"""One process at a time: a lock on a file, which the system lets go of when the process dies."""

import fcntl
import os
from pathlib import Path


class DirectoryLock:
    """An exclusive lock on a directory of ours."""

    def __init__(self, file: int) -> None:
        self._file = file

    @classmethod
    def take(cls, directory: Path) -> "DirectoryLock | None":
        """Return the lock, or None when another process has it. Raises OSError."""
        file = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            os.close(file)
            return None
        except OSError:
            os.close(file)
            raise
        return cls(file)

    def release(self) -> None:
        """Let go of it."""
        os.close(self._file)
