"""Wakes the engine's thread while it waits for commands."""

import contextlib
import os


class Waker:
    """A pipe: `wake` from any thread makes `fileno` readable until `clear`."""

    def __init__(self) -> None:
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)
        os.set_blocking(self._write, False)

    def fileno(self) -> int:
        """Return the file descriptor to select on."""
        return self._read

    def wake(self) -> None:
        """Make the waker's pipe readable.

        Callable from any thread; a full pipe is readable already.
        """
        with contextlib.suppress(BlockingIOError):
            os.write(self._write, b"!")

    def clear(self) -> None:
        """Read and drop all wake-ups."""
        with contextlib.suppress(BlockingIOError):
            while os.read(self._read, 4096):
                pass

    def close(self) -> None:
        """Close both ends; `wake` must not be called afterwards."""
        os.close(self._read)
        os.close(self._write)
