"""The end of a child process's standard error, for error messages."""

import asyncio
import os
from typing import Self

_MAX_BYTES = 4000


class ServerStderr:
    """A pipe that keeps its last bytes. Event-loop thread only.

    `writer` is for the child; what it writes is read at once, so that the child never blocks.
    """

    def __init__(self) -> None:
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self._reader = reader
        self._tail = b""
        self.writer = os.fdopen(writer, "w")

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._reader, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        self.writer.close()

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        self._read()
        lines = self._tail.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def _read(self) -> None:
        try:
            data = os.read(self._reader, 65536)
        except BlockingIOError:
            return
        self._tail = (self._tail + data)[-_MAX_BYTES:]
