"""What the engine says of one sequence, as the front receives it. Event-loop thread only."""

import asyncio
from collections.abc import Callable

from mlxctl.engine.wire.messages import RowUpdate
from mlxctl.errors import MlxctlError, SequenceFailed


class TokenStream:
    """The updates of one sequence in order. Holds at most what the sequence's token limit allows.

    `cancel` is idempotent, and free after the end. Whoever iterates must call it when done, however it ended.
    """

    def __init__(self, sequence_id: int, on_cancel: Callable[["TokenStream"], None]) -> None:
        self.sequence_id = sequence_id
        self.has_started = False
        self._on_cancel = on_cancel
        self._updates: list[RowUpdate] = []
        self._error: MlxctlError | None = None
        self._is_closed = False
        self._is_nudged = False
        self._wakeup: asyncio.Future[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether nothing more will be put in."""
        return self._is_closed

    def put(self, update: RowUpdate) -> None:
        """Take an update from the engine."""
        self.has_started = True
        self._updates.append(update)
        if update.finish_reason is not None or update.failure is not None:
            self._is_closed = True
        self._wake()

    def fail(self, error: MlxctlError) -> None:
        """End the stream with an error, after what has come already."""
        if not self._is_closed:
            self._error = error
            self._is_closed = True
            self._wake()

    async def next(self) -> list[RowUpdate]:
        """Wait for news and return all of it; empty at the end, or when nudged.

        Raises what `fail` was told, and SequenceFailed.
        """
        while not self._updates:
            if self._is_nudged:
                self._is_nudged = False
                return []
            if self._error is not None:
                raise self._error
            if self._is_closed:
                return []
            self._wakeup = asyncio.get_running_loop().create_future()
            await self._wakeup
        self._is_nudged = False
        updates, self._updates = self._updates, []
        if updates[-1].failure is not None:
            raise SequenceFailed(updates[-1].failure)
        return updates

    def nudge(self) -> None:
        """Have whoever waits return with nothing, to look around; the stream goes on."""
        self._is_nudged = True
        self._wake()

    def cancel(self) -> None:
        """Tell the engine to free the sequence, if it has not ended."""
        if not self._is_closed:
            self._is_closed = True
            self._on_cancel(self)
            self._wake()

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)
