"""The part of a WebSocket message that has arrived. Event-loop thread only."""

import asyncio
from collections.abc import Callable

from mlxctl.ir.errors import QueueFull
from mlxctl.server.http.disconnect import Scope
from mlxctl.server.http.received_bytes import ReceivedBytes
from mlxctl.server.http.upload_turns import TOO_SLOW
from mlxctl.server.middleware.body_memory import BodyAccount

POLICY_VIOLATION = 1008
"""Code of a close frame."""
FULL = 1013, "the bodies of open requests take all memory that they may have; try again later"
"""Code and reason of a close frame; a reason may have 123 bytes."""


class IncomingMessage:
    """The message that a WebSocket receives, before it is whole.

    It counts in the account of the caller and takes a turn with the other bodies. `end` closes the WebSocket,
    with a code and a reason.
    """

    def __init__(
        self, account: BodyAccount, scope: Scope, *, end: Callable[[int, str], None], seconds: float
    ) -> None:
        self._account = account
        self._end = end
        self._seconds = seconds
        self._upload = account.incoming(lambda: end(POLICY_VIOLATION, f"a message {TOO_SLOW}"))
        self._received = ReceivedBytes.of(scope, self._count)
        self._num_bytes_before = 0 if self._received is None else self._received.num_bytes
        self._num_bytes = 0
        self._limit: asyncio.TimerHandle | None = None

    def has_come(self) -> None:
        """The message is whole; the next one begins."""
        self._account.remove(self._num_bytes)
        self._upload.close()
        self._num_bytes = 0
        if self._limit is not None:
            self._limit.cancel()
            self._limit = None
        if self._received is not None:
            self._num_bytes_before = self._received.num_bytes

    def close(self) -> None:
        """Stop counting; the WebSocket ends."""
        self.has_come()
        if self._received is not None:
            self._received.close()
            self._received = None

    def _count(self) -> None:
        """Count what has arrived of the message."""
        assert self._received is not None, "it counts while the WebSocket is open"
        more = self._received.num_bytes - self._num_bytes_before - self._num_bytes
        if more <= 0:
            return
        if self._limit is None:
            self._limit = asyncio.get_running_loop().call_later(self._seconds, self._is_late)
        try:
            self._account.add(more)
            self._num_bytes += more
            self._upload.received_at_once(more)
        except QueueFull:
            self._end(*FULL)

    def _is_late(self) -> None:
        self._end(POLICY_VIOLATION, f"a message did not arrive within {self._seconds:g} seconds")
