"""What a child process writes, read while it runs. Event-loop thread only."""

import asyncio
import os
from contextlib import suppress
from typing import Self

from mlxctl.chat.tools.binary_output import readable_output

_CHUNK_BYTES = 65_536


class ChildOutput:
    """A pipe that keeps the first and last bytes.

    `writer` is for the child; what it writes is read at once, so that the child never blocks.
    """

    def __init__(self, *, num_first: int = 0, num_last: int) -> None:
        """Keep the first and last bytes, up to these numbers."""
        reader, writer = os.pipe()
        os.set_blocking(reader, False)
        self.writer = os.fdopen(writer, "w")
        self._reader = reader
        self._num_first = num_first
        self._num_last = num_last
        self._first = b""
        self._last = b""
        self._num_left_out = 0
        self._closed = asyncio.Event()

    def __enter__(self) -> Self:
        asyncio.get_running_loop().add_reader(self._reader, self._read)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.get_running_loop().remove_reader(self._reader)
        os.close(self._reader)
        self.writer.close()

    async def wait_closed(self, *, seconds: float) -> None:
        """Close the writer here; wait until no other process has it open."""
        self.writer.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._closed.wait()

    @property
    def text(self) -> str:
        """The output, with notes about bytes that are not in it."""
        return readable_output(self._first, self._last, num_left_out=self._num_left_out)

    @property
    def last_line(self) -> str:
        """The last line that is not empty."""
        self._read()
        lines = self._last.decode(errors="replace").strip().splitlines()
        return lines[-1].strip() if lines else ""

    def _read(self) -> None:
        try:
            data = os.read(self._reader, _CHUNK_BYTES)
        except BlockingIOError:
            return
        if not data:
            self._closed.set()
            asyncio.get_running_loop().remove_reader(self._reader)
        room = self._num_first - len(self._first)
        self._first += data[:room]
        last = self._last + data[room:]
        self._last = last[-self._num_last :]
        self._num_left_out += len(last) - len(self._last)
