"""Turns of large bodies, which bound what is received at once.

A body that waits for its turn is not read, so its client waits with it. Event-loop thread only.
"""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from mlxctl.ir.errors import BodyTooSlow, QueueFull, describe_bytes

# Bodies up to this size need no turn. A connection that waits holds about as much in its buffers.
_FREE_BYTES = 64 * 1024
# Least progress of a body with a turn while others wait: 33 kB/s, a third of a slow mobile uplink.
_PACE_BYTES, _PACE_SECONDS = 64 * 1024, 2.0
_CHECK_SECONDS = 0.5
_RETRY_AFTER_SECONDS = 5.0
TOO_SLOW = (
    f"brought less than {describe_bytes(_PACE_BYTES)} in {_PACE_SECONDS:g} seconds "
    "while other bodies waited; send it again"
)
"""Why a body lost its turn."""


class UploadTurns:
    """Gives turns to bodies of at most `max_bytes` together.

    A body may take half of what is free, so that smaller ones get a turn beside it. Of the callers that wait,
    the one with the fewest bytes is next, then the one whose last turn is longest ago. A body waits at most
    for `max_wait_seconds`.
    """

    def __init__(self, max_bytes: int, *, max_wait_seconds: float) -> None:
        self._max_bytes = max_bytes
        self._max_wait_seconds = max_wait_seconds
        self._by_caller: Counter[str] = Counter()
        self._last_turns: dict[str, int] = {}
        self._having: set[Upload] = set()
        self._waiting: dict[Upload, asyncio.Future[None]] = {}
        self._check: asyncio.TimerHandle | None = None

    @asynccontextmanager
    async def receiving(self, caller: str, num_bytes: int) -> AsyncIterator["Upload"]:
        """Receive a body of at most `num_bytes`.

        Raises BodyTooSlow for one that keeps others waiting, and QueueFull.
        """
        pace = asyncio.timeout(None)
        upload = Upload(
            self, caller, num_bytes, end=lambda: pace.reschedule(asyncio.get_running_loop().time())
        )
        try:
            async with pace:
                yield upload
        except TimeoutError:
            if not pace.expired():
                raise
            raise BodyTooSlow(f"the request body {TOO_SLOW}") from None
        finally:
            self.end(upload)

    async def take(self, upload: "Upload") -> None:
        """Wait for the turn of a body. Raises QueueFull."""
        turn = self._waiting[upload] = asyncio.get_running_loop().create_future()
        self._give()
        if turn.done():
            return
        self._watch_pace()
        try:
            async with asyncio.timeout(self._max_wait_seconds):
                await turn
        except TimeoutError:
            raise self._full() from None

    def grow(self, upload: "Upload", num_bytes: int) -> None:
        """Give a turn of this size at once.

        Raises QueueFull, and then changes nothing.
        """
        more = num_bytes - (upload.num_bytes if upload in self._having else 0)
        if 2 * more > self._max_bytes - self._by_caller.total():
            raise self._full()
        self._by_caller[upload.caller] += more
        upload.num_bytes = num_bytes
        self._having.add(upload)

    def end(self, upload: "Upload") -> None:
        """Give the turn of a body to others."""
        self._waiting.pop(upload, None)
        if upload in self._having:
            self._having.remove(upload)
            self._by_caller[upload.caller] -= upload.num_bytes
            self._give()
        callers = {one.caller for one in (*self._having, *self._waiting)}
        if upload.caller not in callers:
            self._by_caller.pop(upload.caller, None)
            self._last_turns.pop(upload.caller, None)

    def _full(self) -> QueueFull:
        return QueueFull(
            f"the bodies that are being received take {describe_bytes(self._by_caller.total())} of "
            f"{describe_bytes(self._max_bytes)}; send the request again",
            retry_after_seconds=_RETRY_AFTER_SECONDS,
        )

    def _give(self) -> None:
        """Give turns while a waiting body fits."""
        while True:
            free = self._max_bytes - self._by_caller.total()
            fitting = [upload for upload in self._waiting if 2 * upload.num_bytes <= free]
            if not fitting:
                return
            # `min` takes the first of equals, the one that waits longest.
            upload = min(fitting, key=self._precedence)
            turn = self._waiting.pop(upload)
            if turn.done():
                continue
            self._by_caller[upload.caller] += upload.num_bytes
            self._last_turns[upload.caller] = max(self._last_turns.values(), default=0) + 1
            self._having.add(upload)
            upload.paced_at = asyncio.get_running_loop().time()
            turn.set_result(None)

    def _precedence(self, upload: "Upload") -> tuple[int, int]:
        return self._by_caller[upload.caller], self._last_turns.get(upload.caller, 0)

    def _watch_pace(self) -> None:
        if self._check is None:
            loop = asyncio.get_running_loop()
            self._check = loop.call_later(_CHECK_SECONDS, self._check_pace, loop.time())

    def _check_pace(self, waiting_since: float) -> None:
        """End the slow bodies while others wait."""
        self._check = None
        if not self._waiting:
            return
        loop = asyncio.get_running_loop()
        for upload in tuple(self._having):
            if loop.time() - max(upload.paced_at, waiting_since) >= _PACE_SECONDS:
                upload.end()
        self._check = loop.call_later(_CHECK_SECONDS, self._check_pace, waiting_since)


class Upload:
    """One body that is being received; `end` ends a slow one."""

    def __init__(self, turns: UploadTurns, caller: str, num_bytes: int, *, end: Callable[[], None]) -> None:
        self.end = end
        self.caller = caller
        self.num_bytes = num_bytes
        self.paced_at = 0.0
        self._turns = turns
        self._num_bytes_received = 0
        self._has_turn = False

    async def received(self, num_bytes: int) -> None:
        """Count bytes that have arrived; wait for a turn. Raises QueueFull."""
        self._count(num_bytes)
        if self._num_bytes_received > _FREE_BYTES and not self._has_turn:
            await self._turns.take(self)
            self._has_turn = True

    def received_at_once(self, num_bytes: int) -> None:
        """Count bytes that have arrived; take a turn at once.

        The turn is twice as large. Raises QueueFull.
        """
        self._count(num_bytes)
        if self._num_bytes_received > max(_FREE_BYTES, self.num_bytes):
            self._turns.grow(self, 2 * self._num_bytes_received)

    def close(self) -> None:
        """End the turn; no bytes are left."""
        self._turns.end(self)
        self.num_bytes = self._num_bytes_received = 0

    def _count(self, num_bytes: int) -> None:
        pace = self._num_bytes_received // _PACE_BYTES
        self._num_bytes_received += num_bytes
        if self._num_bytes_received // _PACE_BYTES > pace:
            self.paced_at = asyncio.get_running_loop().time()
