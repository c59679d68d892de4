"""A log file that grows.

Between two looks it may be replaced, or emptied and filled again.
"""

import codecs
import os
from contextlib import closing, suppress
from pathlib import Path
from typing import BinaryIO, Self

from mlxctl.state.locations import older_log_file

# Lines have times and ids, so another file hardly has the same text at the same offset.
_NUM_COMPARED_BYTES = 256


class FollowedLog:
    """A log file, read from its beginning.

    The text that was read last must still be at its offset, otherwise the file is another one by now: inode
    and size do not show that it was emptied and has grown beyond the offset again. Raises FileNotFoundError.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: BinaryIO = path.open("rb")
        self._last_bytes = b""
        self._decoder = codecs.getincrementaldecoder("utf-8")(errors="replace")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *failure: object) -> None:
        self._file.close()

    def new_text(self) -> str:
        """Return what was written since the last call.

        Also by a server that has begun the file again.
        """
        data = b""
        if not self._continues(self._file):
            data = self._rest_of_older()
            self._file.seek(0)
            self._last_bytes = b""
        data += self._read()
        if self._is_replaced():
            self._file.close()
            self._file = self._path.open("rb")
            self._last_bytes = b""
            data += self._read()
        return self._decoder.decode(data)

    def _read(self) -> bytes:
        data = self._file.read()
        self._last_bytes = (self._last_bytes + data)[-_NUM_COMPARED_BYTES:]
        return data

    def _continues(self, file: BinaryIO) -> bool:
        """Return whether `file` has what was read last, where it was read."""
        length = len(self._last_bytes)
        return os.pread(file.fileno(), length, self._file.tell() - length) == self._last_bytes

    def _rest_of_older(self) -> bytes:
        """Return lines that were moved to the older file unread."""
        with suppress(FileNotFoundError), closing(older_log_file(self._path).open("rb")) as older:
            if self._continues(older):
                older.seek(self._file.tell())
                return older.read()
        return b""

    def _is_replaced(self) -> bool:
        """Return whether `path` is another file by now.

        False while there is none.
        """
        try:
            return not os.path.samestat(self._path.stat(), os.fstat(self._file.fileno()))
        except FileNotFoundError:
            return False
