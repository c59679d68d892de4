"""The server that `mlxctl launch` started last, to be found and stopped.

The server holds a lock on the file with its process id, through a descriptor that it inherits: the file of a
server that has ended, whose id another process may have by now, is not locked.
"""

import fcntl
import os
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mlxctl.ir.errors import ClientNotReady
from mlxctl.state import locations

_POLL_SECONDS = 0.1
# The drain time of open requests, and a margin.
_STOP_SECONDS = 45.0


class PidFile:
    """A file that a server locks, with its process id."""

    def __init__(self, path: Path) -> None:
        # The lock of an earlier server that still runs stays on the file that is removed.
        path.unlink(missing_ok=True)
        self.descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        fcntl.flock(self.descriptor, fcntl.LOCK_EX)

    def write(self, pid: int) -> None:
        """Write the id of the process that inherited the descriptor."""
        os.write(self.descriptor, str(pid).encode())


@contextmanager
def new_pid_file() -> Iterator[PidFile]:
    """Open a locked file for the server that the block starts.

    Raises ClientNotReady.
    """
    path = locations.launched_pid_file()
    try:
        file = PidFile(path)
    except OSError as error:
        raise ClientNotReady(f"{str(path)!r} cannot be written: {error.strerror}") from None
    try:
        yield file
    finally:
        os.close(file.descriptor)


def find_launched_server() -> int | None:
    """Return the process id of the server that was launched last.

    None unless it runs.
    """
    try:
        with locations.launched_pid_file().open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
            except BlockingIOError:
                return int(file.read())
    except (OSError, ValueError):
        pass
    return None


def stop_launched_server(pid: int) -> None:
    """Stop the server, and wait until it has ended. Raises ClientNotReady."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGTERM)
    deadline = time.monotonic() + _STOP_SECONDS
    while find_launched_server() == pid:
        if time.monotonic() > deadline:
            raise ClientNotReady(f"the server (pid {pid}) has not ended within {_STOP_SECONDS:.0f} s")
        time.sleep(_POLL_SECONDS)
