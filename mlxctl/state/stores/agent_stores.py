"""Agents on disk and in memory as one store."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from mlxctl.ir.errors import Conflict, InvalidRequest
from mlxctl.ir.stored import StoredAgent
from mlxctl.state.stores.agents import AgentStore


class AgentStores:
    """The agents of all callers; each is in one of two stores.

    Has the methods of AgentStore, with the same errors.
    """

    def __init__(self, on_disk: AgentStore, in_memory: AgentStore) -> None:
        self._on_disk = on_disk
        self._in_memory = in_memory

    def create(
        self, owner: str, agent_id: str, *, model: str, settings: bytes, is_persistent: bool
    ) -> StoredAgent:
        """Create an agent with an empty history. Raises Conflict, InvalidRequest."""
        other = self._store(is_persistent=not is_persistent)
        if other.find(owner, agent_id) is not None:
            raise Conflict(
                f"an agent with the id {agent_id!r} exists already; choose another id, or delete it",
                param="id",
            )
        agent = self._store(is_persistent=is_persistent).create(
            owner, agent_id, model=model, settings=settings
        )
        return replace(agent, is_persistent=is_persistent)

    def find(self, owner: str, agent_id: str) -> StoredAgent | None:
        """Return an agent, None if it is missing or another caller's."""
        found = self._in_memory.find(owner, agent_id)
        if found is not None:
            return replace(found, is_persistent=False)
        return self._on_disk.find(owner, agent_id)

    def page(self, owner: str, *, after: str | None, limit: int) -> tuple[tuple[StoredAgent, ...], bool]:
        """Return a page of agents, and whether there are more.

        Those on disk come first.
        Raises InvalidRequest when there is no agent `after`.
        """
        last = None if after is None else self.find(owner, after)
        if after is not None and last is None:
            raise InvalidRequest(f"after is {after!r}, which is not the id of an agent", param="after")
        found: tuple[StoredAgent, ...] = ()
        if last is None or last.is_persistent:
            found, has_more = self._on_disk.page(owner, after=after, limit=limit)
            if has_more:
                return found, True
            after = None
        others, has_more = self._in_memory.page(owner, after=after, limit=max(1, limit - len(found)))
        if len(found) == limit:
            return found, bool(others)
        return found + tuple(replace(agent, is_persistent=False) for agent in others), has_more

    def counts(self) -> tuple[int, int]:
        """Return the numbers of all callers' agents on disk and in memory."""
        return self._on_disk.count(), self._in_memory.count()

    def messages(
        self, agent: StoredAgent, *, after: int = -1, limit: int = -1
    ) -> tuple[tuple[int, bytes], ...]:
        """Return messages after a position, each with its position.

        `limit` -1 is all.
        """
        return self._store_of(agent).messages(agent, after=after, limit=limit)

    def begin_turn(self, owner: str, agent_id: str) -> tuple[StoredAgent, tuple[bytes, ...]] | None:
        """Return an agent with its history; None if missing.

        Updates its last use.
        """
        begun = self._in_memory.begin_turn(owner, agent_id)
        if begun is not None:
            return replace(begun[0], is_persistent=False), begun[1]
        return self._on_disk.begin_turn(owner, agent_id)

    def end_turn(self, agent: StoredAgent, bodies: Sequence[bytes], *, model: str) -> None:
        """Append messages to the history that the turn began with. Raises Conflict."""
        self._store_of(agent).end_turn(agent, bodies, model=model)

    def change(
        self, owner: str, agent_id: str, *, model: str | None, settings: Callable[[bytes], bytes]
    ) -> StoredAgent | None:
        """Update settings and, if given, the model.

        None if the agent is missing.
        """
        changed = self._in_memory.change(owner, agent_id, model=model, settings=settings)
        if changed is not None:
            return replace(changed, is_persistent=False)
        return self._on_disk.change(owner, agent_id, model=model, settings=settings)

    def reset(self, owner: str, agent_id: str) -> StoredAgent | None:
        """Delete an agent's history; None if missing."""
        changed = self._in_memory.reset(owner, agent_id)
        if changed is not None:
            return replace(changed, is_persistent=False)
        return self._on_disk.reset(owner, agent_id)

    def delete(self, owner: str, agent_id: str) -> bool:
        """Delete an agent; return whether it existed."""
        return self._in_memory.delete(owner, agent_id) or self._on_disk.delete(owner, agent_id)

    def close(self) -> None:
        """Close both stores. Idempotent."""
        self._in_memory.close()
        self._on_disk.close()

    def _store_of(self, agent: StoredAgent) -> AgentStore:
        return self._store(is_persistent=agent.is_persistent)

    def _store(self, *, is_persistent: bool) -> AgentStore:
        return self._on_disk if is_persistent else self._in_memory
