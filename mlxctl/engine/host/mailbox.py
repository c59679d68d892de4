"""The engine's end of the socket: commands in, reports out.

Owned by the engine's thread. Reading and writing happen between steps, without blocking and without another
thread, so that the engine never waits for the interpreter lock.
"""

import select
import socket

import msgspec

from mlxctl.engine.host.waker import Waker
from mlxctl.engine.wire.framing import FrameTooLargeError, command_reader, encode_frame
from mlxctl.engine.wire.messages import AnyCommand, AnyReport

# PERF: the buffer is reused, since `recv` would allocate one for each call.
_READ_BYTES = 1 << 18
# A front that leaves this much unread hangs; its reports would only accumulate.
_MAX_UNSENT_BYTES = 64 * 1024 * 1024


class FrontGoneError(ConnectionError):
    """The front closed the socket, stopped reading, or sent an unreadable command."""


class Mailbox:
    """Non-blocking frames over a connected stream socket, which it owns."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._socket.setblocking(False)
        self._reader = command_reader()
        self._received = memoryview(bytearray(_READ_BYTES))
        self._unsent = bytearray()

    def take(self, *, timeout_seconds: float, waker: Waker) -> list[AnyCommand]:
        """Return all commands that have come.

        Waits up to `timeout_seconds` for one or for `waker`. Raises FrontGoneError.
        """
        if timeout_seconds > 0:
            select.select(
                [self._socket.fileno(), waker.fileno()],
                [self._socket.fileno()] if self._unsent else [],
                [],
                timeout_seconds,
            )
            waker.clear()
        self._flush()
        commands: list[AnyCommand] = []
        try:
            while True:
                num_bytes = self._socket.recv_into(self._received)
                if not num_bytes:
                    raise FrontGoneError("the front closed its end")
                commands.extend(self._reader.feed(self._received[:num_bytes]))
        except BlockingIOError:
            return commands
        except OSError as error:
            raise FrontGoneError(str(error)) from error
        except (FrameTooLargeError, msgspec.DecodeError) as error:
            raise FrontGoneError(f"unreadable command: {error}") from error

    def publish(self, report: AnyReport) -> None:
        """Send a report to the front.

        Buffers what the socket does not take yet. Raises FrontGoneError.
        """
        self._unsent += encode_frame(report)
        self._flush()
        if len(self._unsent) > _MAX_UNSENT_BYTES:
            raise FrontGoneError(f"{len(self._unsent)} bytes of reports were not read")

    def close(self) -> None:
        self._socket.close()

    def _flush(self) -> None:
        try:
            while self._unsent:
                del self._unsent[: self._socket.send(self._unsent)]
        except BlockingIOError:
            return
        except OSError as error:
            raise FrontGoneError(str(error)) from error
