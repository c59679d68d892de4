"""One turn at a time for each agent: the others wait in the order in which they came, and only so many of
them.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mlxctl.errors import QueueFull

_TRY_AGAIN_SECONDS = 2.0

AgentKey = tuple[str, str]
"""Whose agent, and its id."""


@dataclass(slots=True)
class _Turns:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    num_waiting: int = 0


class AgentQueue:
    """Holds nothing for agents that nobody talks to. Event-loop thread only."""

    def __init__(self, *, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._turns: dict[AgentKey, _Turns] = {}

    async def enter(self, key: AgentKey) -> Callable[[], None]:
        """Wait for the turn and return what ends it, to be called once.

        Raises QueueFull when too many wait already.
        """
        turns = self._turns.setdefault(key, _Turns())
        if turns.lock.locked() and turns.num_waiting >= self._max_waiting:
            raise QueueFull(
                f"{turns.num_waiting} turns of agent {key[1]!r} are waiting already",
                retry_after_seconds=_TRY_AGAIN_SECONDS,
            )
        turns.num_waiting += 1
        try:
            await turns.lock.acquire()
        finally:
            turns.num_waiting -= 1
            self._forget(key, turns)

        def leave() -> None:
            turns.lock.release()
            self._forget(key, turns)

        return leave

    def _forget(self, key: AgentKey, turns: _Turns) -> None:
        if not turns.num_waiting and not turns.lock.locked():
            self._turns.pop(key, None)
