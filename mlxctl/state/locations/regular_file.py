"""Reading of files that others name or made, without waiting."""

import errno
import os
import stat
from pathlib import Path


def read_regular_file(path: Path, num_bytes: int) -> bytes:
    """Return the beginning of a regular file, without waiting.

    At most `num_bytes`, and what can be read at once: files such as /proc/kmsg are regular and have no end.
    Raises OSError, also for what is no regular file.
    """
    with open(path, "rb", opener=_open_without_waiting) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            raise OSError(errno.EINVAL, "it is a device or pipe")
        data: bytes | None = file.read(num_bytes)
    if data is None:
        raise BlockingIOError(errno.EAGAIN, "it has no content yet, and may never end")
    return data


def _open_without_waiting(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)
