"""The updates of one sequence, as the front receives them.

Event-loop thread only.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from mlxctl.engine.wire.reports import FailureKind, RowUpdate
from mlxctl.ir.errors import ClientTooSlow, ContextOverBudget, MemoryShortage, MlxctlError, SequenceFailed

_FAILURES: dict[FailureKind, type[MlxctlError]] = {
    "failed": SequenceFailed,
    "over_budget": ContextOverBudget,
    "memory_shortage": MemoryShortage,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReadingRules:
    """What happens to a stream that is not read.

    It is paused when it has more than `max_unread_tokens`, until they are read; after `max_pause_seconds` it
    fails. `on_pause` is called with the stream when a pause begins and when it ends; `is_paused` is set
    before.
    """

    max_unread_tokens: int
    max_pause_seconds: float
    on_pause: "Callable[[TokenStream], None]"


class TokenStream:
    """The updates of one sequence in order.

    They are bounded by the sequence's token limit and by `rules`. The reader must call `cancel` when it is
    done, however the stream ended; it is idempotent.
    """

    def __init__(
        self,
        sequence_id: int,
        on_cancel: Callable[["TokenStream"], None],
        *,
        rules: ReadingRules,
        fairness_key: str = "",
    ) -> None:
        self.sequence_id = sequence_id
        self.fairness_key = fairness_key
        self.has_started = False
        self.is_paused = False
        self._rules = rules
        self._num_unread = 0
        self._pause_timer: asyncio.TimerHandle | None = None
        self._on_cancel = on_cancel
        self._updates: list[RowUpdate] = []
        self._error: MlxctlError | None = None
        self._is_closed = False
        self._is_nudged = False
        self._wakeup: asyncio.Future[None] | None = None

    @property
    def is_closed(self) -> bool:
        """Whether no more updates follow."""
        return self._is_closed

    def put(self, update: RowUpdate) -> None:
        """Take an update from the engine."""
        self.has_started = True
        self._updates.append(update)
        self._num_unread += len(update.token_ids)
        if update.finish_reason is not None or update.failure is not None:
            self._close()
        elif self._num_unread > self._rules.max_unread_tokens and not self.is_paused:
            self._pause()
        self._wake()

    def fail(self, error: MlxctlError) -> None:
        """End the stream with an error, after the updates that came before."""
        if not self._is_closed:
            self._error = error
            self._close()
            self._wake()

    async def next(self) -> list[RowUpdate]:
        """Wait for updates and return all of them.

        Empty at the end, or after `nudge`. Raises SequenceFailed, ContextOverBudget, MemoryShortage,
        ClientTooSlow, and the error given to `fail`.
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
        self._num_unread = 0
        if self.is_paused:
            self._unpause()
        if updates[-1].failure is not None:
            raise _FAILURES[updates[-1].failure_kind](updates[-1].failure)
        return updates

    def nudge(self) -> None:
        """Let a waiting `next` return without updates; the stream continues."""
        self._is_nudged = True
        self._wake()

    def cancel(self) -> None:
        """Cancel the sequence in the engine, if it has not ended."""
        if not self._is_closed:
            self._close()
            self._on_cancel(self)
            self._wake()

    def abort(self, error: MlxctlError) -> None:
        """Cancel the sequence in the engine.

        The reader fails with `error`.
        """
        if not self._is_closed:
            self._error = error
            self.cancel()

    def _close(self) -> None:
        self._is_closed = True
        self.is_paused = False
        self._stop_timer()

    def _pause(self) -> None:
        self.is_paused = True
        self._rules.on_pause(self)
        self._pause_timer = asyncio.get_running_loop().call_later(
            self._rules.max_pause_seconds, self._end_unread
        )

    def _unpause(self) -> None:
        self.is_paused = False
        self._stop_timer()
        self._rules.on_pause(self)

    def _stop_timer(self) -> None:
        if self._pause_timer is not None:
            self._pause_timer.cancel()
            self._pause_timer = None

    def _end_unread(self) -> None:
        self.abort(ClientTooSlow(num_tokens=self._num_unread, seconds=self._rules.max_pause_seconds))

    def _wake(self) -> None:
        if self._wakeup is not None and not self._wakeup.done():
            self._wakeup.set_result(None)
