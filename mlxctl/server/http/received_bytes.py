"""What the client of a connection has sent, by the kernel's count.

Granian hands over whole WebSocket messages only, of up to 64 MB, and has no smaller limit. Event-loop thread
only.
"""

import array
import asyncio
import fcntl
import os
import socket
import stat
import struct
import sys
import termios
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Self

from mlxctl.server.http.disconnect import Scope

# Option, length and offset of the count: `struct tcp_connection_info` in <netinet/tcp.h> of macOS,
# `struct tcp_info` in <linux/tcp.h>.
_INFO = (0x106, 112, 88) if sys.platform == "darwin" else (11, 136, 128)
# Wait between two looks while bytes arrive: 5 MB at 1 GB/s.
_LOOK_SECONDS = 0.005


class ReceivedBytes:
    """The bytes of one connection that this process has read.

    Holds a copy of the connection's file descriptor, which keeps it open: `close` comes before its end.
    """

    def __init__(self, connection: socket.socket, on_bytes: Callable[[], None]) -> None:
        self._connection = connection
        self._on_bytes = on_bytes
        self._look: asyncio.TimerHandle | None = None
        self._wait()

    @classmethod
    def of(cls, scope: Scope, on_bytes: Callable[[], None]) -> Self | None:
        """Watch the connection of an ASGI scope.

        `on_bytes` is called while bytes arrive. Returns None if it is not a TCP connection of this process.
        """
        found = _connection(scope)
        return None if found is None else cls(found, on_bytes)

    @property
    def num_bytes(self) -> int:
        """Bytes that were read since the connection began; 0 after its end."""
        option, length, offset = _INFO
        unread = array.array("i", [0])
        try:
            info = self._connection.getsockopt(socket.IPPROTO_TCP, option, length)
            fcntl.ioctl(self._connection, termios.FIONREAD, unread)
        except OSError:
            return 0
        if len(info) < offset + 8:
            return 0
        return int(struct.unpack_from("Q", info, offset)[0]) - unread[0]

    def close(self) -> None:
        """Stop watching."""
        if self._look is not None:
            self._look.cancel()
        asyncio.get_running_loop().remove_reader(self._connection)
        self._connection.close()

    def _wait(self) -> None:
        """Wait for the next bytes; a connection without any costs nothing."""
        self._look = None
        asyncio.get_running_loop().add_reader(self._connection, self._arrived)

    def _arrived(self) -> None:
        loop = asyncio.get_running_loop()
        loop.remove_reader(self._connection)
        self._look = loop.call_later(_LOOK_SECONDS, self._look_again)
        self._on_bytes()

    def _look_again(self) -> None:
        self._wait()
        self._on_bytes()


def _connection(scope: Scope) -> socket.socket | None:
    """Return a copy of the socket of a scope."""
    client, server = scope.get("client"), scope.get("server")
    if not client or not server:
        return None
    # A new connection mostly has one of the highest numbers.
    for number in sorted((int(path.name) for path in Path("/dev/fd").iterdir()), reverse=True):
        with suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(number).st_mode) or not _connects(number, client, server):
                continue
            copy = os.dup(number)
            if _connects(copy, client, server):
                return socket.socket(fileno=copy)
            os.close(copy)
    return None


def _connects(number: int, client: tuple[str, int], server: tuple[str, int]) -> bool:
    """Whether a file descriptor is the connection between two addresses. Raises OSError."""
    connection = socket.socket(fileno=number)
    try:
        if connection.family not in (socket.AF_INET, socket.AF_INET6):
            return False
        peer, own = connection.getpeername(), connection.getsockname()
        # Granian's ports are text.
        return (peer[0], peer[1], own[1]) == (client[0], int(client[1]), int(server[1]))
    finally:
        connection.detach()
