"""Frames between the front and its preparation processes: pickled values.

Large byte strings are sent beside the pickle, without a copy. SEC: both ends are processes of this server,
connected by a socket pair without a name; nothing else can write to it.
"""

import asyncio
import pickle
import socket
import struct
from collections.abc import Sequence
from typing import Any

_COUNT = struct.Struct("<I")
_LENGTH = struct.Struct("<Q")
_SMALL_BYTES = 64 * 1024
_PIECE_BYTES = 1 << 18

Parts = list[bytes | pickle.PickleBuffer]


class ConnectionEnded(Exception):
    """The other process has closed the connection."""


def encode(value: object) -> Parts:
    """Return a value as the parts of a frame.

    The first holds the lengths of the others.
    """
    buffers: list[pickle.PickleBuffer] = []
    parts: Parts = [pickle.dumps(value, protocol=5, buffer_callback=buffers.append), *buffers]
    lengths = b"".join(_LENGTH.pack(memoryview(part).nbytes) for part in parts)
    return [_COUNT.pack(len(parts)) + lengths, *parts]


def decode(parts: Sequence[bytearray]) -> Any:
    """Return the value of a frame.

    Large byte strings in it are views of the parts.
    """
    return pickle.loads(parts[0], buffers=parts[1:])  # noqa: S301 -- see the head of this module


def connected_pair() -> tuple[socket.socket, socket.socket]:
    """Return a pair of connected sockets with large buffers."""
    pair = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    for end in pair:
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 1 << 20)
    return pair


def send(connection: socket.socket, value: object) -> None:
    """Send a frame. Blocks."""
    for part in encode(value):
        connection.sendall(part)


def receive(connection: socket.socket) -> tuple[Any, int | None]:
    """Return the next value, and a file descriptor or None.

    Blocks. Raises ConnectionEnded.
    """
    head, descriptors, _, _ = socket.recv_fds(connection, _COUNT.size, 1)
    if not head:
        raise ConnectionEnded
    head += _read(connection, _COUNT.size - len(head))
    lengths = _read(connection, _COUNT.unpack(head)[0] * _LENGTH.size)
    parts = [_read(connection, length) for (length,) in _LENGTH.iter_unpack(lengths)]
    return decode(parts), descriptors[0] if descriptors else None


def _read(connection: socket.socket, num_bytes: int) -> bytearray:
    data = bytearray(num_bytes)
    view, position = memoryview(data), 0
    while position < num_bytes:
        count = connection.recv_into(view[position:])
        if not count:
            raise ConnectionEnded
        position += count
    return data


async def send_async(connection: socket.socket, parts: Parts) -> None:
    """Send a frame from the event loop.

    Raises OSError when the other end is closed.
    """
    loop = asyncio.get_running_loop()
    if sum(memoryview(part).nbytes for part in parts) < _SMALL_BYTES:
        await loop.sock_sendall(connection, b"".join(parts))
        return
    for part in parts:
        await loop.sock_sendall(connection, memoryview(part))


async def receive_async(connection: socket.socket) -> Any:
    """Return the next value, from the event loop.

    No other frame may follow it. Raises ConnectionEnded, OSError.
    """
    loop = asyncio.get_running_loop()
    data = bytearray(await loop.sock_recv(connection, _SMALL_BYTES))
    while len(data) < _COUNT.size or len(data) < _COUNT.size + _COUNT.unpack_from(data)[0] * _LENGTH.size:
        if not (more := await loop.sock_recv(connection, _SMALL_BYTES)):
            raise ConnectionEnded
        data += more
    position = _COUNT.size + _COUNT.unpack_from(data)[0] * _LENGTH.size
    parts: list[bytearray] = []
    piece = memoryview(bytearray(_PIECE_BYTES))
    for (length,) in _LENGTH.iter_unpack(memoryview(data)[_COUNT.size : position]):
        part = data[position : position + length]
        position += len(part)
        # PERF: a part grows with what arrives. Allocating a large one at once blocks the event loop while its
        # memory is cleared.
        while len(part) < length:
            count = await loop.sock_recv_into(connection, piece[: length - len(part)])
            if not count:
                raise ConnectionEnded
            part += piece[:count]
        parts.append(part)
    return decode(parts)
