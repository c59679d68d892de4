"""Waits for a user who does not answer. Event-loop thread only."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any


class IdleTimer:
    """Runs `on_idle` after a time. `tasks` are those that run."""

    def __init__(self, on_idle: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self._on_idle = on_idle
        self._handle: asyncio.TimerHandle | None = None
        self._is_closed = False

    def start(self, seconds: float) -> None:
        """Begin to wait, from now on."""
        self.stop()
        if self._is_closed:
            return
        self._handle = asyncio.get_running_loop().call_later(seconds, self._run)

    def stop(self) -> None:
        """Wait no longer."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None

    def close(self) -> None:
        """Stop for ever."""
        self.stop()
        self._is_closed = True

    def _run(self) -> None:
        task = asyncio.create_task(self._on_idle(), name="realtime-idle")
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
