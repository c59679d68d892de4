"""The order of each agent's turns. Event-loop thread only."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field

from mlxctl.ir.errors import QueueFull

_TRY_AGAIN_SECONDS = 2.0

AgentKey = tuple[str, str]
"""Whose agent, and its id."""


@dataclass(slots=True)
class _Turns:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    num_waiting: int = 0


class AgentQueue:
    """Runs each agent's turns one at a time, in arrival order.

    Holds no entry for idle agents.
    """

    def __init__(self, *, max_waiting: int) -> None:
        self._max_waiting = max_waiting
        self._turns: dict[AgentKey, _Turns] = {}

    async def enter(self, key: AgentKey) -> Callable[[], None]:
        """Wait for the turn.

        Returns a callback that ends it, to be called once. Raises QueueFull if too many turns wait already.
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

    @property
    def num_running(self) -> int:
        """Number of turns in progress."""
        return sum(turns.lock.locked() for turns in self._turns.values())

    @property
    def num_waiting(self) -> int:
        """Turns that wait for an earlier turn of their agent."""
        return sum(turns.num_waiting for turns in self._turns.values())

    def _forget(self, key: AgentKey, turns: _Turns) -> None:
        if not turns.num_waiting and not turns.lock.locked():
            self._turns.pop(key, None)
