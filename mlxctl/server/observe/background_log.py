"""Bounds the log file of a server in the background.

Standard error is that file: launchd, systemd or `mlxctl launch` opened it, and the engine's process writes
to it too. So it is copied and emptied, not renamed.
"""

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from mlxctl.state import locations

MAX_BYTES = 16_000_000
"""Size at which the log is emptied and its lines are moved to the older file."""


class BackgroundLog:
    """The log file `path`, open as `descriptor`.

    Older lines are in one file beside it: `service.log.1` for `service.log`.
    """

    def __init__(self, path: Path, descriptor: int, *, max_bytes: int = MAX_BYTES) -> None:
        self._path = path
        self._descriptor = descriptor
        self._max_bytes = max_bytes

    def bound(self) -> None:
        """Move a too large log to the older file.

        The copy has the mode of the log. Without space for it the lines are dropped. Raises OSError.
        """
        if os.fstat(self._descriptor).st_size > self._max_bytes:
            with suppress(OSError):
                shutil.copy(self._path, locations.older_log_file(self._path))
            os.ftruncate(self._descriptor, 0)


def find_background_log(descriptor: int) -> BackgroundLog | None:
    """Return the log open as `descriptor`; None for other files."""
    try:
        is_appending = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        opened = os.fstat(descriptor)
    except OSError:
        return None
    for path in (locations.service_log_file(), locations.launched_log_file()):
        # Without O_APPEND, the next line would be written at its old offset.
        if is_appending and path.is_file() and os.path.samestat(path.stat(), opened):
            return BackgroundLog(path, descriptor)
    return None
