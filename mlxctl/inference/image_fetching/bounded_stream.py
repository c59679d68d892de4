"""A connection that another server cannot keep busy."""

import ssl
from typing import Any

import httpcore

# Parsing what one read returns blocks the event loop, and it may be thousands of tiny parts.
_READ_BYTES = 8 * 1024


class BoundedStream(httpcore.AsyncNetworkStream):
    """Reads a little at a time, and at most `max_bytes`."""

    def __init__(self, stream: httpcore.AsyncNetworkStream, *, max_bytes: int) -> None:
        self._stream = stream
        self._num_bytes_left = max_bytes

    async def read(self, max_bytes: int, timeout: float | None = None) -> bytes:  # noqa: ASYNC109
        """Return bytes that have arrived. Raises httpcore.ReadError after too many."""
        found = await self._stream.read(min(max_bytes, _READ_BYTES), timeout)
        self._num_bytes_left -= len(found)
        if self._num_bytes_left < 0:
            raise httpcore.ReadError("the answer has too many bytes around its content")
        return found

    async def write(self, buffer: bytes, timeout: float | None = None) -> None:  # noqa: ASYNC109
        """Send bytes."""
        await self._stream.write(buffer, timeout)

    async def aclose(self) -> None:
        """Close the connection."""
        await self._stream.aclose()

    async def start_tls(
        self,
        ssl_context: ssl.SSLContext,
        server_hostname: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> httpcore.AsyncNetworkStream:
        """Return the encrypted connection, with the same bounds."""
        encrypted = await self._stream.start_tls(ssl_context, server_hostname, timeout)
        return BoundedStream(encrypted, max_bytes=self._num_bytes_left)

    def get_extra_info(self, info: str) -> Any:
        """Return a fact about the connection."""
        return self._stream.get_extra_info(info)
