"""Server-sent events as lines: bytes go in as the network cuts them, complete lines come out.

Knows nothing of what they say.
"""

from mlxctl.errors import ConnectionLost

# One delta is small; a line beyond this is no stream of an answer, and must not fill the memory.
_MAX_LINE_BYTES = 16 * 1024**2


class LineReader:
    """Cuts a byte stream at line feeds; a carriage return before one is dropped."""

    def __init__(self) -> None:
        self._rest = b""

    def feed(self, data: bytes) -> list[bytes]:
        """Return the lines that `data` completes. Raises ConnectionLost for a line without end."""
        *lines, self._rest = (self._rest + data).split(b"\n")
        if len(self._rest) > _MAX_LINE_BYTES:
            raise ConnectionLost(f"the server sent a line of more than {_MAX_LINE_BYTES} bytes")
        return [line.removesuffix(b"\r") for line in lines]
