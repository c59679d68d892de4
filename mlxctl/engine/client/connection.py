"""The front's end of the socket: commands out, reports in.

Event-loop thread only.
"""

import asyncio
import socket
from collections.abc import Callable

import msgspec

from mlxctl.engine.wire.commands import Command
from mlxctl.engine.wire.framing import FrameTooLargeError, encode_frame, report_reader
from mlxctl.engine.wire.messages import AnyReport


class EngineConnection(asyncio.Protocol):
    """Frames over a connected socket.

    `on_report` is called for each report, from the event loop; `lost` is set at the end.
    """

    def __init__(self, on_report: Callable[[AnyReport], None]) -> None:
        self._on_report = on_report
        self._reader = report_reader()
        self._transport: asyncio.WriteTransport | None = None
        self.lost = asyncio.Event()

    @classmethod
    async def open(
        cls, connected: socket.socket, on_report: Callable[[AnyReport], None]
    ) -> "EngineConnection":
        """Use a connected socket, and own it."""
        connected.setblocking(False)
        _, protocol = await asyncio.get_running_loop().create_connection(
            lambda: cls(on_report), sock=connected
        )
        return protocol

    def send(self, command: Command) -> None:
        """Send a command; it is lost if the connection is."""
        if self._transport is not None and not self.lost.is_set():
            self._transport.write(encode_frame(command))

    def close(self) -> None:
        """Close our end, which ends the engine."""
        if self._transport is not None:
            self._transport.close()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop."""
        assert isinstance(transport, asyncio.WriteTransport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        try:
            for report in self._reader.feed(data):
                self._on_report(report)
        except (FrameTooLargeError, msgspec.DecodeError):
            # The supervisor ends an engine that sends invalid frames, and starts another.
            self.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        del exc
        self.lost.set()
