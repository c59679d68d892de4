"""Frames between two ranks over a TCP connection, with blocking calls."""

import contextlib
import socket
from collections.abc import Iterator
from typing import TypeVar

import msgspec

from mlxctl.engine.wire.framing import FrameReader, FrameTooLargeError, encode_frame
from mlxctl.engine.wire.rank_messages import AnyRankOperation, AnyRankReply, Claim, RankOperation, RankReply

_READ_BYTES = 1 << 16
_MAX_CLAIM_BYTES = 1 << 14
# A machine that is gone is noticed after about 25 seconds, also while no messages are sent.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPALIVE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
M = TypeVar("M")


class RankLink:
    """One end of a connection, which it owns.

    Reading and writing may be on two threads.
    """

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            # Systems have different ones.
            if (option := getattr(socket, name, None)) is not None:
                connection.setsockopt(socket.IPPROTO_TCP, option, value)
        self._socket = connection

    def send(self, *messages: RankOperation | RankReply) -> None:
        """Send messages. Raises OSError."""
        self._socket.sendall(b"".join(map(encode_frame, messages)))

    def claim(self) -> Claim | None:
        """Return the first message; None if the other end closes.

        Raises OSError, also for anything else.
        """
        # SEC: the other end may be anyone: nothing larger is read, and no other kind of message.
        return next(self._messages(FrameReader(Claim, max_bytes=_MAX_CLAIM_BYTES)), None)

    def operations(self) -> Iterator[AnyRankOperation]:
        """Yield what comes, until the other end closes.

        Raises OSError, also for an unreadable message.
        """
        return self._messages(FrameReader(AnyRankOperation))

    def replies(self) -> Iterator[AnyRankReply]:
        """Yield what comes, as `operations` does."""
        return self._messages(FrameReader(AnyRankReply))

    def set_timeout(self, seconds: float | None) -> None:
        """Limit the time that every call waits."""
        self._socket.settimeout(seconds)

    def close(self) -> None:
        """Close this end; a call that waits on another thread returns."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _messages(self, reader: FrameReader[M]) -> Iterator[M]:
        try:
            while data := self._socket.recv(_READ_BYTES):
                yield from reader.feed(data)
        except (FrameTooLargeError, msgspec.DecodeError) as error:
            raise OSError(f"unreadable message: {error}") from error
